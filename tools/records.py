"""The runs behind docs/results.md as docs/records/EXPERIMENT.tar.xz, from which `gnomon report` and `verify` work.

Adds the runs of a folder to those that are there: `python tools/records.py RUNS [EXPERIMENT ...]`. Of a finished run
configuration, records and result are kept; of one under way its checkpoints too, so that it goes on after unpacking:
`tar -xf docs/records/EXPERIMENT.tar.xz -C runs`.
"""

import argparse
import io
import tarfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from gnomon_lab.runs import Found, all_runs
from gnomon_lab.runs.files import replace_file

RECORDS = Path(__file__).parent.parent / "docs" / "records"


def kept(run: Found) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The files of a run, as members of an archive that depends on nothing but them."""
    # Checkpoints first: if the run goes on meanwhile, there may be more records than they stand on, but not fewer.
    more = ["result.json"] if run.finished else sorted(path.name for path in run.folder.glob("checkpoint-*"))
    for name in (*more, "config.json", "records.jsonl"):
        path = run.folder / name
        content = path.read_bytes()
        member = tarfile.TarInfo("/".join(path.parts[-3:]))
        member.size = len(content)
        # A run that goes on asks which checkpoint is the latest.
        member.mtime = datetime.fromisoformat(run.started).timestamp() if run.finished else path.stat().st_mtime
        yield member, content


def members(archive: Path) -> dict[str, list[tuple[tarfile.TarInfo, bytes]]]:
    """The members of an archive by the folders of their runs; none if there is no archive."""
    found: dict[str, list[tuple[tarfile.TarInfo, bytes]]] = {}
    if archive.exists():
        with tarfile.open(archive) as opened:
            for member in opened:
                if (file := opened.extractfile(member)) is not None:
                    found.setdefault(str(Path(member.name).parent), []).append((member, file.read()))
    return found


def pack(archive: Path, runs: list[Found]) -> int:
    """Adds runs to an archive, in place of what it had of them; returns how many it then holds."""
    whole = members(archive)
    for run in runs:
        name = "/".join(run.folder.parts[-2:])
        if not run.finished and any(Path(member.name).name == "result.json" for member, _ in whole.get(name, [])):
            print(f"left out: {run.folder} is not finished, and the one in {archive.name} is")
        else:
            whole[name] = list(kept(run))
    archive.parent.mkdir(parents=True, exist_ok=True)

    def write(beside: Path) -> None:
        with tarfile.open(beside, "w:xz", format=tarfile.PAX_FORMAT) as opened:
            for folder in sorted(whole):
                for member, content in whole[folder]:
                    opened.addfile(member, io.BytesIO(content))

    replace_file(archive, write)
    return len(whole)


def main() -> None:
    """Packs the runs of a folder, experiment by experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder that holds all runs")
    parser.add_argument("experiments", nargs="*", help="some of them; default: all")
    given = parser.parse_args()
    runs, damaged = all_runs(given.runs)
    for sentence in damaged:
        print(f"left out: {sentence}")
    if not runs:
        parser.error(f"runs: expected a folder of runs, got {given.runs}, which has none")
    there = {run.experiment for run in runs}
    if missing := [name for name in given.experiments if name not in there]:
        parser.error(f"experiments: expected some of {', '.join(sorted(there)) or 'none'}, got {', '.join(missing)}")
    for name in given.experiments or sorted(there):
        archive = RECORDS / f"{name}.tar.xz"
        count = pack(archive, [run for run in runs if run.experiment == name])
        print(f"{archive.name}: {count} runs, {archive.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
