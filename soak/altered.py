"""Runs whose files were altered: what reads them gives what they held before, or says in a line what is wrong."""

import os
import re
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from gnomon_lab.papers import experiment
from gnomon_lab.runs.checkpoint import load_of_run
from soak.case import Case
from soak.faults import Faults
from soak.forked import forked
from soak.gnomon_command import called, unfit
from soak.kills import SETTINGS, arguments, compared, outcome, run, same_machine
from soak.mutations import copied, mutate, names_in

EXPERIMENTS = ("grok-digits", "central-path")
FINISHED, BROKEN = 0, 2
"""Seeds: 0 and 1 are finished, 2 was killed in its second half."""


NAMED = "named"
"""In the place of a verdict: it depends on whether what was seen, a sentence, names the altered file."""


class AlteredRuns:
    """Mutates a file of a run, then lists, verifies, reports, resumes or measures."""

    name, share, unit, limit = "altered runs", 0.2, 40, 90.0

    def prepare(self, folder: Path) -> None:
        """Three runs of each of two experiments, and what each command says about them unaltered."""
        same_machine()
        folder.mkdir(parents=True)
        self.home = folder
        (folder / "warm").mkdir()
        os.chdir(folder / "warm")
        for name in EXPERIMENTS:
            called(arguments(name))  # here, so that all that is imported late is there before the first child
        self.whole: dict[tuple[str, int], dict[str, Any]] = {}
        for name in EXPERIMENTS:
            for seed in (0, 1, BROKEN):
                place = folder / f"{name}-{seed}"
                place.mkdir()
                os.chdir(place)
                self.made(name, seed, None)
                self.whole[name, seed] = outcome(place / "runs")
            (folder / "count").mkdir()
            os.chdir(folder / "count")
            operations = self.made(name, BROKEN, None)
            shutil.rmtree(folder / "count")
            os.chdir(folder)
            for at in range(int(0.7 * operations), 0, -1):
                # Back from there to an operation that leaves a checkpoint behind and one arm or more unfinished, and no
                # record that is not sealed.
                shutil.rmtree(folder / "runs" / name, ignore_errors=True)
                self.made(name, BROKEN, at)
                if self.records(name).total() == sealed(self.run_folder(folder, name, BROKEN)) > 0:
                    break
            for seed in (0, 1):
                shutil.copytree(folder / f"{name}-{seed}" / "runs", folder / "runs", dirs_exist_ok=True)
        os.chdir(folder)
        with settings_judged():
            self.listed = called(["list"])
            self.verified = {name: called(["verify", name]) for name in EXPERIMENTS}
            self.judged = {
                (name, seed): called(["verdict", str(self.run_folder(folder, name, seed))])
                for name in EXPERIMENTS
                for seed in (FINISHED, BROKEN)
            }
            self.pages = {name: self.page(self.run_folder(folder, name, FINISHED)) for name in EXPERIMENTS}
        for page in (folder / "runs").rglob("report.html"):
            page.unlink()

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """One mutation, and one command."""
        shutil.copytree(self.home / "runs", folder / "runs")
        name, seed = chance.choice(EXPERIMENTS), chance.choice([FINISHED, BROKEN])
        place = self.run_folder(folder, name, seed)
        if chance.random() < 0.05:
            did, altered = copied(place, chance), ("config.json",)  # which names another folder
        else:
            path = chance.choice(sorted(path for path in place.iterdir() if path.is_file()))
            done = mutate(path, chance)
            did, altered = f"{place.name}/{done}", names_in(done)
        what = chance.choice(["list", "verify", "verdict", "watch", "report", "run", "run"])
        did = f"{what} of {name} after {did}"
        with settings_judged():
            verdict, saw = getattr(self, f"after_{what}")(name, seed, place, folder)
        if verdict == NAMED:
            there = any(file in saw for file in altered)
            verdict, saw = ("", "") if there else ("wrong", f"the sentence names none of {altered}: {saw!r}")
        return Case(did, verdict, saw)

    def after_list(self, name: str, seed: int, place: Path, folder: Path) -> tuple[str, str]:
        """The healthy runs stand there as before, and the altered one as before or with a word."""
        ended = called(["list"])
        if (bad := unfit(ended, (int("\n  left out: " in ended.out),)))[0]:
            return bad
        before = [line for line in self.listed.out.splitlines() if place.name not in line]
        after = ended.out.splitlines()
        if missing := [line for line in before if line.strip() and line not in after and "-seed" in line]:
            return "wrong", f"healthy runs are missing: {missing}; {ended.out[-500:]}{ended.err[-500:]}"
        lines = [line for line in after if line not in self.listed.out.splitlines()]
        # Of what is not finished, list says only from where it would go on; without a checkpoint, from the start.
        new = [line for line in lines if "finished" in line and "not finished" not in line]
        if new and not worded(f"{new}{ended.err}"):
            return "wrong", f"listed as if it were whole: {new}"
        return "", ""

    def after_verify(self, name: str, seed: int, place: Path, folder: Path) -> tuple[str, str]:
        """The same verdicts, or the altered run is named."""
        before, ended = self.verified[name], called(["verify", name])
        if (bad := unfit(ended, (0, 1, 2)))[0]:
            return bad
        gone = not (place / "config.json").exists() or not (place / "result.json").exists()
        said = squeezed(ended.out + ended.err)
        if (ended.code, ended.out) != (before.code, before.out) and place.name not in said and not gone:
            return "wrong", f"another board, and {place.name} is not named: exit {ended.code}: {said[-1500:]}"
        return "", ""

    def after_report(self, name: str, seed: int, place: Path, folder: Path) -> tuple[str, str]:
        """The same page, or a sentence that names a file of the run, or says that the run is not finished."""
        there = self.there(place, folder)
        ended = called(["report", str(there.relative_to(folder))])
        if (bad := unfit(ended))[0]:
            return bad
        if seed == BROKEN:
            return ("", "") if ended.code == 2 else ("wrong", "an unfinished run was reported")
        if ended.code == 2 and not (there / "result.json").exists() and "an unfinished one" in ended.err:
            return "", ""
        if ended.code == 2:
            return NAMED, ended.err
        if there != place:
            return "wrong", f"reported under another name, {there.name}"
        page = without_machines((place / "report.html").read_text(encoding="utf-8"))
        if page != self.pages[name]:
            first = next((k for k, pair in enumerate(zip(page, self.pages[name], strict=False)) if len({*pair}) > 1), 0)
            return "wrong", f"another page: {page[max(0, first - 150) : first + 150]!r}"
        return "", ""

    def after_verdict(self, name: str, seed: int, place: Path, folder: Path) -> tuple[str, str]:
        """The same words, or a sentence that names a file of the run; an unfinished one may have more records."""
        ended = called(["verdict", str(self.there(place, folder).relative_to(folder))])
        if (bad := unfit(ended, (0, 1, 2)))[0]:
            return bad
        if ended.code == 2:
            return NAMED, ended.err
        more = seed == BROKEN and not self.records(name) - lines_of(place / "records.jsonl")
        same = more or ended.out == self.judged[name, seed].out
        return ("", "") if same else ("wrong", f"another verdict: {ended.out[-900:]}{ended.err[-900:]}")

    def after_watch(self, name: str, seed: int, place: Path, folder: Path) -> tuple[str, str]:
        """A page in any case: a run is watched while it grows, before anything seals its last records."""
        ended = called(["watch", "runs", "--once", "--out", "watch.html"])
        return unfit(ended, (0,))

    def after_run(self, name: str, seed: int, place: Path, folder: Path) -> tuple[str, str]:
        """The records of an unbroken run, or a sentence that names a file of the run."""
        ended = forked(lambda: run(name, seed))
        if (bad := unfit(ended))[0]:
            return bad
        if ended.code == 2:
            return NAMED, ended.err
        alone = folder / "alone" / "runs" / name
        alone.mkdir(parents=True)
        if place.exists():
            place.rename(alone / place.name)
        return compared(alone.parent, self.whole[name, seed])

    def made(self, name: str, seed: int, killed_at: int | None) -> int:
        """A run, killed at an operation if told, in the current folder; how many operations it made."""

        def work() -> None:
            faults = Faults(Path("runs").absolute(), "kill", killed_at or -1, Random(0))
            faults.install()
            try:
                run(name, seed)
            finally:
                Path("operations").write_text(str(faults.count), encoding="utf-8")

        ended = forked(work)
        if ended.code != (0 if killed_at is None else -9):
            raise RuntimeError(f"the prepared run of {name} ended with {ended}")
        return 0 if killed_at else int(Path("operations").read_text(encoding="utf-8"))

    def records(self, name: str) -> Counter[bytes]:
        """The lines of the records of the broken run, unaltered."""
        return lines_of(self.run_folder(self.home, name, BROKEN) / "records.jsonl")

    def there(self, place: Path, folder: Path) -> Path:
        """The run's folder, whatever it is called now."""
        known = {path.name for path in (self.home / "runs" / place.parent.name).iterdir()}
        return place if place.exists() else next(path for path in place.parent.iterdir() if path.name not in known)

    def run_folder(self, folder: Path, name: str, seed: int) -> Path:
        """Where a run lies."""
        (found,) = (folder / "runs" / name).glob(f"*-seed{seed}")
        return found

    def page(self, found: Path) -> str:
        """The unaltered page of a run."""
        ended = called(["report", str(found)])
        if ended.code != 0:
            raise RuntimeError(f"the page of {found} could not be written: {ended}")
        return without_machines((found / "report.html").read_text(encoding="utf-8"))


def lines_of(path: Path) -> Counter[bytes]:
    """A file's lines, if it is one."""
    return Counter(path.read_bytes().splitlines(keepends=True) if path.is_file() else ())


def sealed(folder: Path) -> int:
    """How many of a run's records its checkpoints seal."""
    return sum(load_of_run(path)["records"] for path in folder.glob("checkpoint-*.safetensors"))


class settings_judged:  # noqa: N801 - used as a context
    """While it is entered, the tiny settings are among those that claims are about."""

    def __enter__(self) -> None:
        self.before = {name: experiment(name) for name in EXPERIMENTS}
        for name, before in self.before.items():
            judged = (*before.others, TINY.setdefault(name, tiny(name)))
            sys.modules[before.entry.module].EXPERIMENT = replace(before, others=judged)

    def __exit__(self, *error: object) -> None:
        for before in self.before.values():
            sys.modules[before.entry.module].EXPERIMENT = before


TINY: dict[str, object] = {}


def tiny(name: str) -> object:
    """The configuration that the arguments of a tiny run give."""
    import tyro

    return tyro.cli(type(experiment(name).small), args=SETTINGS[name])


def without_machines(page: str) -> str:
    """A page without what it was made with, which need not be the same."""
    return re.sub(r"<h3>(made|resumed) with.*?</dl>", "", page, flags=re.DOTALL)


def worded(text: str) -> bool:
    """Whether it says that something is amiss."""
    return re.search(r"damaged|expected|unreadable|changed|altered|another|cannot|not as|differs", text) is not None


def squeezed(text: str) -> str:
    """Without the line breaks of a narrow terminal."""
    return re.sub(r"\s*\n\s*", "", text)
