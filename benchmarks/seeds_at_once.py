"""Ten seeds of `accelerate` at once, on a batch axis of their own, against ten runs one after another.

Both make the same steps to the same numbers. What the batch axis can save is what a call costs beyond its arithmetic.
"""

import torch
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn import functional

from gnomon.models import mlp
from timing import compare

SEEDS = 10
generator = torch.Generator().manual_seed(0)


def networks(width, dtype):
    """A network a seed."""
    widths = (784, width, width, width, 10)
    return [mlp(widths, scale=8.0, generator=torch.Generator().manual_seed(s)).to(dtype) for s in range(SEEDS)]


def one_after_another(models, batches):
    """A pass over the batches by each seed in turn."""
    optimizers = [torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01) for model in models]

    def run():
        for model, optimizer in zip(models, optimizers, strict=True):
            for x, labels in batches:
                optimizer.zero_grad()
                functional.cross_entropy(model(x), labels).backward()
                optimizer.step()

    return run


def at_once(models, batches):
    """A pass over the batches by all seeds together; AdamW acts on single entries, so that stacking changes nothing."""
    stacked, _ = stack_module_state(models)
    optimizer = torch.optim.AdamW(stacked.values(), 1e-3, weight_decay=0.01)
    single = models[0]

    def loss(parameters, x, labels):
        return functional.cross_entropy(functional_call(single, parameters, (x,)), labels)

    gradients = vmap(grad_and_value(loss), (0, None, None))

    def run():
        for x, labels in batches:
            values = {name: p.detach() for name, p in stacked.items()}
            for name, gradient in gradients(values, x, labels)[0].items():
                stacked[name].grad = gradient
            optimizer.step()

    run.parameters = stacked
    return run


def check(models, batches):
    """Both ways must reach the same parameters."""
    together, apart = at_once(models, batches), one_after_another(models, batches)
    together()
    apart()
    for name, stacked in together.parameters.items():
        wanted = torch.stack([dict(model.named_parameters())[name] for model in models])
        torch.testing.assert_close(stacked, wanted)


if __name__ == "__main__":
    x, labels = torch.randn(1024, 784, generator=generator), torch.randint(10, (1024,), generator=generator)
    for width, dtype in ((196, torch.float64), (196, torch.float32), (32, torch.float32)):
        batches = list(zip(x.to(dtype).split(256), labels.split(256), strict=True))
        check(networks(width, torch.float64), list(zip(x.double().split(256), labels.split(256), strict=True)))
        contenders = {
            "at once": at_once(networks(width, dtype), batches),
            "one after another": one_after_another(networks(width, dtype), batches),
        }
        title = f"A pass of ten seeds, 784-{width}-{width}-{width}-10, {str(dtype).removeprefix('torch.')}"
        compare(title, contenders, rounds=7, calls=1)
