"""Write the tables and pictures of RESULTS.md and NOT_REPRODUCED.md; first copy the results of runs to results/.

    python -m examples.results runs/craft runs/tg_example runs/union     # runs of examples.measure
    python -m examples.results                                           # write the tables again

A table is between two comments, `<!-- table NAME -->` and `<!-- end -->`; the rest of the page is written by hand. The
pictures are the paper's Figure 3 for every treebank with several seeds, and the curves of the queue's trainings.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

from accel.drawing.distributions import draw_distributions
from accel.drawing.svg import Picture, save
from accel.training.directory import write_text
from examples import curves, task_results
from examples.analysis_tables import analyses
from examples.gpst_tables import TABLES_OF_GPST
from examples.program import run_program
from examples.queue_tables import TABLES_OF_QUEUE, read_runs
from examples.queue_tables import Run as QueueRun
from examples.result_files import ESTIMATED, FOLDER, NAMES, PAPER, Result, grouped, read_results, stored_name, values_of
from examples.tables import TABLES, has_distribution, picture_name
from examples.task_results import TaskResult
from examples.task_tables import TABLES_OF_TASKS, sizes_rows
from examples.treeformer import sizes
from examples.verdicts import decided, verdicts

PAGE = Path(__file__).with_name("RESULTS.md")
PAGES = (PAGE, Path(__file__).with_name("NOT_REPRODUCED.md"))
TITLES = {
    "perplexity": "perplexity",
    ESTIMATED: "perplexity, estimated from draws",
    "documents": "perplexity on documents",
    "F1": "F1, reranked",
    "SG": "SG score, %",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", type=Path, nargs="*", help="folders of examples.measure or examples.fasttrees.sentiment"
    )
    options = parser.parse_args(arguments)
    for name, text in [pair for run in options.runs for pair in to_store(run)]:
        target = FOLDER / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, text)
    results = read_results(FOLDER)
    for name, picture in pictures(results).items():
        save(picture, FOLDER / picture_name(name))
    of_tasks = task_results.read_task_results(FOLDER)
    if rows := sizes_rows(of_tasks):
        picture = sizes.picture_of(rows, sizes.TASKS["head_final"].shown, sizes.HEIGHT_DEPTH)
        save(picture, FOLDER.parent / "treeformer" / "sizes.svg")
    of_queue = read_runs(FOLDER / "queue")
    for name, picture in curves.learning_curves(results, of_queue).items():
        save(picture, FOLDER / name)
    for path in PAGES:
        write_text(path, page(path.read_text(encoding="utf-8"), results, of_tasks, of_queue))


def to_store(run: Path) -> list[tuple[str, str]]:
    """Return the name in the folder of all results, and the text, of every result in a folder of runs.

    Raises
    ------
    ValueError
        If there is no result, or one of another program.
    """
    files, programs = [], "examples.measure or examples.fasttrees.sentiment"
    for path in sorted(run.glob("*/result*.json")):
        text = path.read_text(encoding="utf-8")
        result = json.loads(text)
        if not result.keys() & {"experiment", "task"}:
            raise ValueError(f"{path}: is no result of {programs}: leave {run} out")
        files.append((stored_name(result) if "experiment" in result else task_results.stored_name(result), text))
    if not files:
        raise ValueError(f"{run}: holds no results: give a folder that {programs} wrote")
    return files


def pictures(results: Sequence[Result]) -> dict[str, Picture]:
    """Return the distributions over seeds of every treebank with several seeds: a panel for each measure."""
    drawings = {}
    for name, group in grouped(results).items():
        if has_distribution(group):
            measured = {TITLES[measure]: values_of(group, measure) for measure in PAPER}
            panels = {
                title: {NAMES[model]: of_model for model, of_model in values.items()}
                for title, values in measured.items()
                if values
            }
            count = max(len(values) for rows in panels.values() for values in rows.values())
            drawings[name] = draw_distributions(panels, f"{name}: {count} models of each kind, seed by seed")
    return drawings


def page(
    text: str, results: Sequence[Result], of_tasks: Sequence[TaskResult] = (), of_queue: Sequence[QueueRun] = ()
) -> str:
    """Return a page with every table written from the results.

    `of_tasks` are those of FastTrees and Treeformer, `of_queue` those of the queue's runs.
    """

    def written(match: re.Match[str]) -> str:
        kind, _, name = match[1].partition(" ")
        if kind in TABLES_OF_TASKS:
            content = TABLES_OF_TASKS[kind](name, of_tasks)
        elif of_runs := (TABLES_OF_QUEUE | TABLES_OF_GPST).get(kind):
            content = of_runs(of_queue)
        elif kind == "analyses":
            content = analyses(name, of_queue)
        elif kind == "curves":
            content = curves.links(results, of_queue)
        elif kind == "verdicts":
            content = verdicts(name, results, of_tasks, of_queue)
        elif kind == "decided":
            content = decided(results, of_tasks, of_queue)
        else:
            content = TABLES[kind]([result for result in results if not name or result["experiment"] == name])
        return f"<!-- table {match[1]} -->\n{content}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w /]+) -->\n(?:.*?\n)??<!-- end -->", written, text, flags=re.DOTALL)


if __name__ == "__main__":
    run_program(main)
