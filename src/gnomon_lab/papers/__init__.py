"""A wing per paper, and the table of experiments, which is all that is imported until one of them is requested."""

import difflib
import importlib
from typing import TYPE_CHECKING

from gnomon.errors import DataError
from gnomon_lab.experiment import Entry, Experiment

if TYPE_CHECKING:
    from gnomon_lab.settings import Settings

ENTRIES = (
    Entry(
        "gnomon_lab.papers.own.grok_digits",
        "how two networks trained on handwritten digits do on unseen ones, with and without GrokAlign",
        "setting of this project, after Walker et al., arXiv:2506.12284",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.accelerate",
        "how soon a network groks MNIST, with weight decay, Grokfast, input noise and GrokAlign",
        "Walker et al., arXiv:2506.12284, table 1",
    ),
    Entry(
        "gnomon_lab.papers.own.anatomy",
        "one training run watched by every quantity: when each changes, and in which order",
        "setting of this project, after Walker et al., arXiv:2506.12284",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.row_alignment",
        "how far GrokAlign and input noise turn the rows of the Jacobians along the data",
        "Walker et al., arXiv:2506.12284, table 2",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.rank",
        "how close the Jacobians at the training digits come to rank one, with and without GrokAlign",
        "Walker et al., arXiv:2506.12284, figure 2",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.inhibit",
        "whether a network generalises if the Jacobian norm is minimised, and if it is held at 5",
        "Walker et al., arXiv:2506.12284, figure 7",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.xor",
        "when a network memorises, generalises and becomes robust, with and without GrokAlign",
        "Walker et al., arXiv:2506.12284, figure 4",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.ntk_regime",
        "what moves a digit's inner product with its centroid: theorem 9, with and without feature learning",
        "Walker et al., arXiv:2506.12284, figure 3",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.init_scaling",
        "how the initial scale of the weights or of the output determines the alignment that training reaches",
        "Walker et al., arXiv:2506.12284, figure 10",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.delayed_robustness",
        "how robust a CIFAR-10 network is to attacks as it trains, with and without GrokAlign",
        "Walker et al., arXiv:2506.12284, figures 5 and 6",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.modular_addition",
        "whether GrokAlign helps a transformer to grok modular addition, with embeddings learned or fixed",
        "Walker et al., arXiv:2506.12284, figures 8 and 9",
    ),
    Entry(
        "gnomon_lab.papers.grokalign.regions",
        "the linear regions around training digits, from memorisation to generalisation",
        "Walker et al., arXiv:2506.12284, figures 1 and 11",
    ),
    Entry(
        "gnomon_lab.papers.mse_collapse.mse_collapse",
        "what features and classifiers do after the last training error, and how close they are to the central path",
        "Han, Papyan, Donoho, arXiv:2106.02073, figures 2 to 9 and 12, table 1",
    ),
    Entry(
        "gnomon_lab.papers.mse_collapse.mse_vs_ce",
        "the same network under the squared error and under cross-entropy: which collapses sooner, which is robust",
        "Han, Papyan, Donoho, arXiv:2106.02073, figures 10 to 12",
    ),
    Entry(
        "gnomon_lab.papers.mse_collapse.central_path",
        "free features flow into neural collapse along a closed form, which is not that of the flow the paper defines",
        "Han, Papyan, Donoho, arXiv:2106.02073, proposition 2, corollaries 1 and 2",
    ),
    Entry(
        "gnomon_lab.papers.agop_collapse.layer_denoising",
        "which part of each layer collapses the classes: its weight, or the ReLU after it",
        "Beaglehole et al., arXiv:2402.13728, figures 2 and 7 to 9",
    ),
    Entry(
        "gnomon_lab.papers.agop_collapse.nfa",
        "how each layer's weight correlates with the AGOP at its input, before, during and after training",
        "Beaglehole et al., arXiv:2402.13728, figures 10 to 12",
    ),
    Entry(
        "gnomon_lab.papers.agop_collapse.deep_rfm",
        "an untrained network layer by layer: what the root of the AGOP collapses, and what the random features undo",
        "Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, figures 1 and 3 to 6",
    ),
    Entry(
        "gnomon_lab.papers.agop_collapse.linear_rfm",
        "the recursion in which deep collapse can be proved, with the theorem's constants and with the exact ones",
        "Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, theorem 4.3",
    ),
    Entry(
        "gnomon_lab.papers.agop_collapse.kernel_linearisation",
        "whether the kernels of a Deep RFM on images are linear but for a ridge, as the proof of its collapse assumes",
        "Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, section 4.2, theorem 4.3",
    ),
    Entry(
        "gnomon_lab.papers.agop_grokking.rfm_addition",
        "a kernel machine that groks modular addition: no network, no gradient descent, the AGOP alone",
        "Mallinar, Beaglehole, Zhu, Radhakrishnan, Pandit, Belkin, arXiv:2407.20199",
    ),
    Entry(
        "gnomon_lab.papers.effective_flow.truncation",
        "whether clusters cross the faces of their layer's sector and become one point, as a film",
        "Chen, arXiv:2501.07400, theorem 3.2, propositions 4.1 and 4.2, and their figure",
    ),
    Entry(
        "gnomon_lab.papers.effective_flow.truncation_bias",
        "the cumulative bias at a fixed rotation, exactly, event by event: each point truncated speeds up the cut",
        "Chen, arXiv:2501.07400, section 4.3",
    ),
    Entry(
        "gnomon_lab.papers.effective_flow.general_flow",
        "maps that all act on all clusters: the flow compared with automatic differentiation and small steps",
        "Chen, arXiv:2501.07400, theorem 5.1",
    ),
    Entry(
        "gnomon_lab.papers.effective_flow.collapsed_flow",
        "classes truncated to one point each: an integral of motion makes the loss decay while they stay truncated",
        "Chen, arXiv:2501.07400, section 8",
    ),
    Entry(
        "gnomon_lab.papers.effective_flow.clustered_flow",
        "nothing is truncated: the flow of the output layer solved for all times, down to its least-squares fit",
        "Chen, arXiv:2501.07400, section 9",
    ),
    Entry(
        "gnomon_lab.papers.own.truncation_practice",
        "ordinary training compared with the effective gradient flow, and where their differences come from",
        "setting of this project, after Chen, arXiv:2501.07400",
    ),
    Entry(
        "gnomon_lab.papers.own.lazy_penalty",
        "how soon a network groks with GrokAlign at some batches only, and what a step costs",
        "setting of this project, after Walker et al., arXiv:2506.12284, table 1",
    ),
    Entry(
        "gnomon_lab.papers.own.steering",
        "methods that make networks generalise sooner, compared with weight decay tuned with the same budget",
        "setting of this project",
    ),
    Entry(
        "gnomon_lab.papers.own.which_lambda",
        "how large GrokAlign's coefficient should be: rules from the initial network, tested on held-out tasks",
        "setting of this project",
    ),
    Entry(
        "gnomon_lab.papers.own.corpus",
        "hundreds of small networks of eight families, with settings drawn at random, read as they train",
        "setting of this project",
    ),
    Entry(
        "gnomon_lab.papers.own.who_knows_first",
        "which quantity read from training data predicts that a network will generalise",
        "setting of this project",
    ),
    Entry(
        "gnomon_lab.papers.own.verdict",
        "whether more training is worth it, predicted from training data alone, on held-out families",
        "setting of this project",
    ),
    Entry(
        "gnomon_lab.papers.own.elsewhere",
        "training runs of kinds that the corpus lacks, and what the verdict said before they went on",
        "setting of this project",
    ),
)
"""In the order in which they are listed."""


class Experiments(dict[str, Entry]):
    """Entries by name; a module that asks for a name which no Entry has is told so."""

    def __missing__(self, name: str) -> Entry:
        raise misnamed("the name of an Entry in gnomon_lab/papers/__init__.py", name)


EXPERIMENTS = Experiments({entry.name: entry for entry in ENTRIES})


def misnamed(expected: str, name: str) -> DataError:
    """The error about a key that is not the name of the module's Entry."""
    return DataError(None, expected, repr(name), "Use the same name in both.", where="EXPERIMENTS")


def experiment(name: str) -> "Experiment[Settings]":
    """The experiment with a name, imported now.

    Raises:
        DataError: if there is none with that name; the nearest is named. Also if its entry leads to none, or to one
            that asks for another.
    """
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, 1, cutoff=0.5)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise DataError("NAME", "an experiment", repr(name), f"{meant}See `gnomon list`.", where="experiment")
    module, entry = EXPERIMENTS[name].module, "its Entry in gnomon_lab/papers/__init__.py"
    own = f"{name!r}, the name of the Entry of {module}"
    try:
        found: "Experiment[Settings] | None" = getattr(importlib.import_module(module), "EXPERIMENT", None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # something that the module imports
            raise
        raise DataError(name, f"a module {module}", "none", f"Correct {entry}.", where="experiment") from error
    except DataError as error:
        if error.where == "EXPERIMENTS":
            error.expected = own
        raise
    if found is None:
        expected, advice = f"{module} to define EXPERIMENT", f"End it so, or correct {entry}."
        raise DataError(name, expected, "a module without", advice, where="experiment")
    if found.name != name:
        raise misnamed(own, found.name)
    return found
