"""What Python imports as it starts: a process that the soak starts is guarded as the one that started it."""

from soak.guard import guard_again

guard_again()
