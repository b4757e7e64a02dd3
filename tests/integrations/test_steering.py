"""The steering methods in the frameworks: what they train is what a plain loop with the same method trains."""

import pytest
import torch
from accelerate import Accelerator, debug_launcher
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, get_state_dict, set_state_dict
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from transformers import Trainer

from gnomon import GrokAlign, GrokfastEMA, GrokfastMA, InputNoise
from gnomon.errors import CheckpointError, RangeError
from tests.integrations.plain_loop import (
    BATCH,
    EPOCHS,
    IN_ORDER,
    LABELS,
    RATE,
    STEPS,
    THE_SAME,
    TOGETHER,
    X,
    assert_same,
    forget,
    mean_loss,
    network,
    plain_training,
)
from tests.integrations.test_lightning import Module, loader, pytestmark, trainer_with  # noqa: F401
from tests.integrations.test_transformers import Classifier
from tests.integrations.test_transformers import trainer_with as hugging_face


def aligned(**settings):
    penalty = GrokAlign(0.3, generator=torch.Generator().manual_seed(7), **settings)

    def loss(model, x, labels):
        logits, added = penalty.logits_and_penalty(model, x)
        return cross_entropy(logits, labels) + added

    loss.penalty = penalty
    return loss


def aligned_apart():
    """On a part of the batch, in a pass of its own, since the network has batch statistics."""
    penalty = GrokAlign(0.3, fraction=0.5, generator=torch.Generator().manual_seed(7))
    return lambda model, x, labels: mean_loss(model, x, labels) + penalty(model, x)


def noisy():
    noise = InputNoise(largest=0.5, generator=torch.Generator().manual_seed(7))

    def loss(model, x, labels):
        noise.train_accuracy = min(1.0, noise.train_accuracy + 0.1)
        return mean_loss(model, noise(x), labels)

    return loss


def ema(model):
    return GrokfastEMA(model.named_parameters(), 0.8, 0.5)


def moving(model):
    return GrokfastMA(model.named_parameters(), 2, 0.5)


METHODS = {
    "GrokAlign": (aligned, None),
    "GrokAlign, exact": (lambda: aligned(estimator="exact"), None),
    "GrokAlign, a part": (aligned_apart, None),
    "GrokfastEMA": (lambda: mean_loss, ema),
    "GrokfastMA": (lambda: mean_loss, moving),
    "input noise": (noisy, None),
    "all": (aligned, ema),
}


def in_lightning(loss, grokfast, *callbacks, path=None, same=False, size=BATCH, **settings):
    class Steered(Module):
        def training_step(self, batch, index):
            return loss(self.network, *batch)

        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            if grokfast:
                grokfast(self.network).attach(optimizer)
            return optimizer

    module = Steered()
    trainer_with(*callbacks, **settings).fit(module, loader(same, size), loader(), ckpt_path=path, weights_only=True)
    return module.network


class Steered(Trainer):
    """As docs/integrations.md has it."""

    def __init__(self, *args, **rest):
        super().__init__(*args, **rest)
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        class Logits(nn.Module):
            def forward(self, x):
                return model(x, inputs["labels"][: len(x)])["logits"]  # labels are for the loss, which is not used

        return self.loss(Logits(), inputs["x"], inputs["labels"])


def in_transformers(loss, grokfast, folder, path=None, model=None, **settings):
    trainer = hugging_face(folder, model, Steered, **settings)
    trainer.loss = loss
    if grokfast:
        grokfast(trainer.model.network).attach(trainer.optimizer)
    trainer.train(resume_from_checkpoint=path)
    return trainer.model.network


def in_accelerate(loss, grokfast, folder, batch=BATCH, late=False, save=None, resume=None):
    forget()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=TOGETHER)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    steering = grokfast(model) if grokfast else None
    if steering and not late:
        steering.attach(optimizer)
    model, optimizer, batches = accelerator.prepare(model, optimizer, DataLoader(TensorDataset(X, LABELS), batch))
    if late:
        steering.attach(optimizer)
    if resume:
        accelerator.load_state(folder)
    for epoch in range(EPOCHS):
        if epoch == save:
            accelerator.save_state(folder)
        for x, labels in batches if epoch >= (resume or 0) else ():
            with accelerator.accumulate(model):
                accelerator.backward(loss(model, x, labels))
                optimizer.step()
                optimizer.zero_grad()
    return accelerator.unwrap_model(model)


FRAMEWORKS = {
    "Lightning": lambda loss, grokfast, folder: in_lightning(loss, grokfast),
    "transformers": in_transformers,
    "Accelerate": in_accelerate,
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_trained_is_a_plain_loops(tmp_path, framework, method):
    make_loss, grokfast = METHODS[method]
    expected = plain_training(IN_ORDER, make_loss(), grokfast)
    found = FRAMEWORKS[framework](make_loss(), grokfast, tmp_path)
    torch.testing.assert_close(found.state_dict(), expected.state_dict(), rtol=1e-5, atol=1e-6)
    unsteered = plain_training(IN_ORDER)
    assert (found[0].weight - unsteered[0].weight).norm() > 0.01 * unsteered[0].weight.norm()


class AnyArguments(Classifier):
    """As most networks of transformers are, which the Trainer then takes to divide their loss themselves."""

    def forward(self, x, labels, **rest):
        return super().forward(x, labels)


def test_the_loss_is_divided_by_the_batches_of_a_step_whatever_the_network_takes(tmp_path):
    expected = plain_training(IN_ORDER, aligned())
    found = in_transformers(aligned(), None, tmp_path, model=AnyArguments())
    torch.testing.assert_close(found.state_dict(), expected.state_dict(), rtol=1e-5, atol=1e-6)


def test_accelerates_own_optimizer_will_do(tmp_path):
    found, expected = in_accelerate(mean_loss, ema, tmp_path, late=True), in_accelerate(mean_loss, ema, tmp_path)
    assert_same(found.parameters(), expected.parameters())


@pytest.mark.parametrize("overridden", [False, True])
def test_a_trainer_that_makes_its_network_attaches_as_it_makes_the_optimizer(tmp_path, overridden):
    """As docs/integrations.md has it; what is attached before is never called."""

    class Attaching(Trainer):
        def create_optimizer(self, *rest):
            optimizer = super().create_optimizer(*rest)
            if overridden:
                ema(self.model.network).attach(optimizer)
            return optimizer

    def remaking(model, arguments, optimizers, **data):
        return Attaching(args=arguments, model_init=lambda: Classifier(), **data)

    plain = {"optim": "sgd", "learning_rate": RATE, "lr_scheduler_type": "constant"}
    trainer = hugging_face(tmp_path, trainer_class=remaking, **plain)
    if not overridden:
        ema(trainer.model.network).attach(trainer.create_optimizer())
    expected = plain_training(IN_ORDER, before_step=ema if overridden else None)
    for _ in range(2):
        trainer.train()
        found = trainer.model.network
        torch.testing.assert_close(found.state_dict(), expected.state_dict(), rtol=1e-5, atol=1e-6)


def resumed_in_lightning(steered, folder):
    saves = ModelCheckpoint(folder, "{step}", save_top_k=-1, every_n_train_steps=1)
    in_lightning(*steered(), saves, same=True, max_steps=3, enable_checkpointing=True)
    return in_lightning(*steered(), same=True, path=folder / "step=3.ckpt"), in_lightning(*steered(), same=True)


def resumed_in_transformers(steered, folder):
    unbroken = in_transformers(*steered(), folder, save_strategy="steps", save_steps=3)
    return in_transformers(*steered(), folder, path=str(folder / "checkpoint-3")), unbroken


def resumed_in_accelerate(steered, folder):
    unbroken = in_accelerate(*steered(), folder, save=1)
    return in_accelerate(*steered(), folder, resume=1), unbroken


class Carried:
    """Grokfast, and beside it in the optimizer's state the calls of a GrokAlign, as docs/integrations.md has it."""

    def __init__(self, grokfast, penalty):
        self.grokfast, self.penalty = grokfast, penalty

    def attach(self, optimizer):
        self.grokfast.attach(optimizer)
        optimizer.register_state_dict_post_hook(lambda _, state: {**state, "grokalign": self.penalty.state_dict()})
        optimizer.register_load_state_dict_pre_hook(lambda _, state: self.penalty.load_state_dict(state["grokalign"]))


def seldom():
    """At one batch in four, two batches a step: without its phase, a run resumed at its third step would go astray."""
    loss = aligned(estimator="exact", every=4)
    return loss, lambda model: Carried(ema(model), loss.penalty)


@pytest.mark.parametrize("resumed", [resumed_in_lightning, resumed_in_transformers, resumed_in_accelerate])
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
def test_a_resumed_training_is_the_unbroken_one(tmp_path, resumed):
    """Bit for bit, GrokAlign without random projections."""
    found, expected = resumed(seldom, tmp_path)
    assert_same(found.state_dict().values(), expected.state_dict().values())
    rows = THE_SAME if resumed is resumed_in_lightning else IN_ORDER
    plain = plain_training(rows, seldom()[0], ema)
    torch.testing.assert_close(found.state_dict(), plain.state_dict(), rtol=1e-5, atol=1e-6)


def test_a_resumed_trainer_draws_the_same_projections(tmp_path):
    """The Hugging Face Trainer's checkpoint holds torch's global stream; Lightning's does not."""

    def loss(model, x, labels):
        logits, penalty = GrokAlign(0.3).logits_and_penalty(model, x)
        return cross_entropy(logits, labels) + penalty

    with torch.random.fork_rng():
        found, expected = resumed_in_transformers(lambda: (loss, ema), tmp_path)
    assert_same(found.parameters(), expected.parameters())


def test_gradients_are_clipped_before_they_are_amplified(tmp_path):
    def clipped(model):
        amplify = ema(model)

        def change():
            assert nn.utils.clip_grad_norm_(model.parameters(), 0.2) > 0.2
            amplify()

        return change

    expected = plain_training(IN_ORDER, before_step=clipped).state_dict()
    for found in (
        in_lightning(mean_loss, ema, gradient_clip_val=0.2),
        in_transformers(mean_loss, ema, tmp_path, max_grad_norm=0.2),
    ):
        torch.testing.assert_close(found.state_dict(), expected, rtol=1e-5, atol=1e-6)


def scaler():
    """Its first scale overflows in half precision."""
    return torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=2)


def scaled_training(attached):
    """Two batches a step, under autocast; how many steps were skipped, and the network."""
    model = network()
    optimizer, scale = torch.optim.SGD(model.parameters(), RATE), scaler()
    amplify = GrokfastEMA(model.named_parameters(), 0.8, 0.5, skip_nonfinite=True)
    if attached:
        amplify.attach(optimizer)
    for together in IN_ORDER:
        for batch in together:
            with torch.autocast("cpu", torch.float16):
                loss = mean_loss(model, X[batch], LABELS[batch]) / TOGETHER
            scale.scale(loss).backward()
        if not attached:
            scale.unscale_(optimizer)
            amplify()
        scale.step(optimizer)
        scale.update()
        optimizer.zero_grad()
    return model, amplify


def test_under_a_gradient_scaler_it_sees_what_the_step_sees():
    expected, explicit = scaled_training(attached=False)
    found, attached = scaled_training(attached=True)
    assert_same(found.state_dict().values(), expected.state_dict().values())
    assert explicit.steps == STEPS
    assert 1 < attached.steps < STEPS
    assert attached.state_dict()["taken"] == explicit.state_dict()["taken"]
    precision = MixedPrecision("16-mixed", "cpu", scaler())
    in_trainer = in_lightning(mean_loss, ema, plugins=precision)
    torch.testing.assert_close(in_trainer.state_dict(), expected.state_dict(), rtol=1e-5, atol=1e-6)


def test_a_fused_step_is_called_with_what_overflows_and_must_not_unscale():
    model, scale = network(), scaler()
    optimizer = torch.optim.SGD(model.parameters(), RATE, fused=True)
    amplify = GrokfastEMA(model.named_parameters(), skip_nonfinite=True)
    amplify.attach(optimizer)
    for overflow in (False, True):
        before = [parameter.clone() for parameter in model.parameters()]
        scale.scale(mean_loss(model, X, LABELS)).backward()
        if overflow:
            model[0].weight.grad[0, 0] = torch.inf
        scale.unscale_(optimizer)
        scale.step(optimizer)
        scale.update()
        optimizer.zero_grad()
        assert amplify.state_dict()["taken"][0] == 1
        assert all(torch.equal(*pair) == overflow for pair in zip(before, model.parameters(), strict=True))
    scale.scale(mean_loss(model, X, LABELS)).backward()
    with pytest.raises(RangeError, match=r"GrokfastEMA.attach: expected unscaled gradients, .*fused=False"):
        scale.step(optimizer)


def _train_on_each(folder):
    def loss():
        return aligned(estimator="exact")

    half = BATCH // 2
    states = {
        "transformers": in_transformers(loss(), ema, folder, per_device_train_batch_size=half),
        "Accelerate": in_accelerate(loss(), ema, folder, half),
    }
    rank = torch.distributed.get_rank()
    torch.save({name: model.state_dict() for name, model in states.items()}, folder / f"{rank}.pt")


def test_two_processes_train_as_one(tmp_path):
    """Each has half of each batch; only what the batch normalises by is its own."""
    debug_launcher(_train_on_each, (tmp_path,), num_processes=2)
    halves = [step.view(-1, BATCH // 2) for step in IN_ORDER]
    expected = dict(plain_training(halves, aligned(estimator="exact"), ema).named_parameters())
    for rank in range(2):
        for state in torch.load(tmp_path / f"{rank}.pt").values():
            found = {name: state[name] for name in expected}
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_two_processes_of_lightning_train_as_one():
    """Lightning deals the samples itself; the first process's network comes back."""
    rows = []
    for epoch in range(EPOCHS):
        samplers = [DistributedSampler(X, 2, rank) for rank in range(2)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        shares = torch.tensor([[*sampler] for sampler in samplers]).view(2, -1, TOGETHER, BATCH // 2)
        rows += shares.transpose(0, 1).flatten(1, 2)
    expected = plain_training(rows, aligned(estimator="exact"), ema)
    found = in_lightning(aligned(estimator="exact"), ema, size=BATCH // 2, strategy="ddp_fork", devices=2)
    torch.testing.assert_close(dict(found.named_parameters()), dict(expected.named_parameters()), rtol=1e-5, atol=1e-6)


def test_with_a_closure_it_is_called_after_it():
    models = [network(), network()]
    optimizers = [torch.optim.SGD(model.parameters(), RATE) for model in models]
    explicit, attached = (ema(model) for model in models)
    attached.attach(optimizers[1])

    def closure():
        optimizers[1].zero_grad()
        loss = mean_loss(models[1], X, LABELS)
        loss.backward()
        return loss

    for step in range(4):
        optimizers[0].zero_grad()
        expected = mean_loss(models[0], X, LABELS)
        expected.backward()
        explicit()
        optimizers[0].step()
        loss = optimizers[1].step(closure) if step % 2 else optimizers[1].step(closure=closure)
        torch.testing.assert_close(loss, expected, rtol=0, atol=0)
    assert_same(models[1].parameters(), models[0].parameters())
    optimizers[1].zero_grad()
    optimizers[1].step()
    assert attached.steps == 4


def test_what_cannot_be_attached_is_named():
    model = network()
    optimizer = torch.optim.SGD(model[0].parameters(), RATE)
    with pytest.raises(RangeError, match=r"GrokfastEMA.attach\(optimizer\): .* got one without 1\.weight"):
        ema(model).attach(optimizer)
    optimizer.add_param_group({"params": model[1].parameters()})
    model[4].requires_grad_(False)
    without = optimizer.state_dict()
    ema(model).attach(optimizer)
    with pytest.raises(RangeError, match=r"MA.attach\(optimizer\): .* without an attached method, .* Attach once"):
        moving(model).attach(optimizer)
    with pytest.raises(
        CheckpointError, match=r"expected an optimizer's state with 'gnomon', got state, param_groups\."
    ):
        optimizer.load_state_dict(without)


OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, RATE),
    "momentum": lambda parameters: torch.optim.SGD(parameters, RATE, momentum=0.9),
    "a rate that is a tensor": lambda parameters: torch.optim.SGD(parameters, torch.tensor(RATE)),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, 0.01),
}


def train(model, optimizer, steps):
    for _ in range(steps):
        mean_loss(model, X, LABELS).backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("grokfast", [ema, moving])
@pytest.mark.parametrize("kind", [name for name in OPTIMIZERS if name != "AdamW"])
def test_distributed_checkpoint_may_look_at_the_optimizers_state(grokfast, kind):
    """It makes a step where there is none: before the first, and at any time with SGD. Adam's own count has it."""
    models = []
    for look in (False, True):
        models.append(model := network())
        optimizer = OPTIMIZERS[kind](model.parameters())
        (method := grokfast(model)).attach(optimizer)
        for _ in range(4):
            if look:
                get_optimizer_state_dict(model, optimizer)
            train(model, optimizer, 1)
        assert method.steps == 4
    assert_same(models[1].state_dict().values(), models[0].state_dict().values())


def test_steps_of_rate_zero_or_without_slope_are_of_training():
    """As the first of a warm-up, and a batch that is fitted."""
    models = [network(), network()]
    explicit, attached = (ema(model) for model in models)
    optimizers = [torch.optim.SGD(model.parameters(), RATE) for model in models]
    attached.attach(optimizers[1])
    for rate, scale in ((0.0, 1.0), (RATE, 1.0), (RATE, 0.0), (RATE, 1.0)):
        for model, optimizer in zip(models, optimizers, strict=True):
            (scale * mean_loss(model, X, LABELS)).backward()
            optimizer.param_groups[0]["lr"] = rate
            if model is models[0]:
                explicit()
            optimizer.step()
            optimizer.zero_grad()
    assert attached.steps == 4
    assert_same(models[1].parameters(), models[0].parameters())


@pytest.mark.parametrize("grokfast", [ema, moving])
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized:UserWarning")
def test_distributed_checkpoint_resumes_with_grokfasts_own_state_beside(tmp_path, grokfast, kind):
    def parts():
        model = network()
        return model, OPTIMIZERS[kind](model.parameters()), grokfast(model)

    model, optimizer, method = parts()
    method.attach(optimizer)
    train(model, optimizer, 3)
    checkpoint.save(
        dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True)), checkpoint_id=tmp_path
    )
    torch.save(method.state_dict(), tmp_path / "grokfast.pt")
    train(model, optimizer, 3)

    resumed, optimizer, method = parts()
    states = dict(zip(("model", "optimizer"), get_state_dict(resumed, optimizer), strict=True))
    checkpoint.load(states, checkpoint_id=tmp_path)
    set_state_dict(resumed, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
    method.load_state_dict(torch.load(tmp_path / "grokfast.pt"))
    method.attach(optimizer)
    train(resumed, optimizer, 3)
    assert method.steps == 6
    assert_same(resumed.state_dict().values(), model.state_dict().values())

    late, optimizer, method = parts()
    method.attach(optimizer)
    with pytest.raises(
        CheckpointError, match=r"torch\.distributed\.checkpoint leaves it out: save .* before attaching"
    ):
        set_state_dict(late, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
