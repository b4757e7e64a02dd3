"""When a series moves and rests, and when more training is unlikely to help, on series made for it."""

import math

import pytest
import torch

from gnomon import log_spaced
from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.history import feature_learning_interval, plateau

LINEAR = torch.arange(0, 10001, 50)
LOGARITHMIC = torch.logspace(0, 4, 81)


def noise(n, size, seed=0):
    return size * torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rise(steps, start=200.0, end=2000.0, low=0.0, high=1.0):
    """Rest, a ramp in log step, rest."""
    share = ((steps.double().clamp_min(1) / start).log() / math.log(end / start)).clamp(0, 1)
    return low + (high - low) * share


@pytest.mark.parametrize("steps", [LINEAR, LOGARITHMIC], ids=["linear", "logarithmic"])
@pytest.mark.parametrize("size", [0.0, 0.01])
def test_interval_is_where_the_ramp_leaves_its_ends_by_the_tolerance(steps, size):
    """A tenth of the ramp is cut at either end: 200 to 2000 becomes 200 * 10^0.1 = 252 to 1589."""
    found = feature_learning_interval(steps, rise(steps) + noise(len(steps), size))
    assert found.moves
    assert found.start == pytest.approx(252, rel=0.25 if size else 0.2)
    assert found.end == pytest.approx(1589, rel=0.25 if size else 0.15)
    assert found.change == pytest.approx(1, abs=0.1)
    assert found.message.startswith("It moves between steps ")


def test_a_kernel_is_compared_as_a_matrix():
    """Its entries turn, with norm and trace unchanged."""
    steps = LOGARITHMIC
    angle = rise(steps) * math.pi / 2
    kernel = torch.stack([torch.cos(angle) ** 2, torch.sin(angle) ** 2], 1).diag_embed()
    found = feature_learning_interval(steps, kernel)
    assert found.moves
    assert 200 <= found.start < found.end <= 2000
    traces = feature_learning_interval(steps, kernel.diagonal(dim1=1, dim2=2).sum(1))
    assert not traces.moves
    turn = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).double())[0]
    turned = feature_learning_interval(steps, 1e-200 * kernel.flatten(1) @ turn)
    assert (turned.start, turned.end) == (found.start, found.end)


@pytest.mark.parametrize("size", [0.0, 0.02])
def test_rest_is_rest_however_many_readings_are_noisy(size):
    steps = torch.arange(20000)
    found = feature_learning_interval(steps, 1 + noise(len(steps), size).clamp(-2.4 * size, 2.4 * size))
    assert not found.moves
    assert found.start is found.end is None
    expected = f"It rests throughout, near its first or its last value, {found.excursion:.1%} from the first at most"
    assert found.message.startswith(expected)
    assert not feature_learning_interval([0, 1, 2], [0.0, 0.0, 0.0]).moves


def test_steps_are_named_by_all_their_digits():
    found = feature_learning_interval([1_000_001, 1_000_002.5, 1_000_003], [1.0, 2.0, 3.0])
    assert found.message.startswith("It moves between steps 1,000,001 and 1,000,003, by ")
    assert " up to step 1,000,002 has 0 of 3." in plateau([1_000_001, 1_000_002], [0.9, 0.9], [1.0, 1.0]).message


def test_there_and_back_again_is_a_move():
    found = feature_learning_interval([0, 1, 2, 3, 4, 5], [1.0, 1.0, 4.0, 4.0, 1.0, 1.0])
    assert (found.moves, found.start, found.end, found.change) == (True, 1.0, 4.0, 0.0)
    assert found.excursion == 0.75


def test_a_value_rests_up_to_the_tolerance():
    """Of the largest value, 3, a quarter is exactly 0.75: what is as far away as that rests."""
    found = feature_learning_interval([0, 1, 2, 3, 4], [0.0, 0.75, 1.5, 2.25, 3.0], 0.25)
    assert (found.start, found.end) == (1.0, 3.0)
    assert not feature_learning_interval([0, 1, 2], [0.0, 1.5, 3.0], 0.5).moves  # the second is near both ends


def test_a_plateau_is_high_and_of_rank_one_from_the_thresholds_on():
    steps = list(range(1, 101))
    for limit in (0.0, 0.5, 1.0):
        aligned = [-1.0] + [limit] * 99
        assert plateau(steps, aligned, [limit] * 100, high=limit, rank_one=limit).reached


def test_an_alignment_that_the_untrained_network_has_is_no_evidence():
    """With one output PC1 is 1, and with two inputs the mean alignment of directions by chance is 2 / pi."""
    steps, chance = list(range(101)), 2 / math.pi
    found = plateau(steps, [chance] * 101, [1.0] * 101)
    assert (found.reached, found.first) == (False, chance)
    assert found.message == (
        "More training may help: alignment is 0.637, and was 0.637 at the first reading: it may be so by chance."
    )
    for rise, reached in ((0.049, False), (0.051, True), (-0.2, False)):
        aligned = [chance + rise * (step > 0) for step in steps]
        assert plateau(steps, aligned, [1.0] * 101).reached is reached
    assert "by chance" not in plateau(steps, [0.1] * 101, [1.0] * 101).message  # too low anyway


def test_the_parts_compared_begin_after_a_quarter_and_after_half_of_the_steps():
    at = [0.9] * 8
    assert plateau([2, 3, 4, 5, 6, 7, 8], at[:7], at[:7]).gain is None  # 3 and 4 are two readings
    assert plateau([2, 2.5, 3, 4, 5, 6, 7, 8], at, at).gain == 0
    assert plateau([2.5, 3, 3.5, 4, 7, 8], at[:6], at[:6]).gain is None  # and 4 is none of those after 4


def test_backwards_is_the_same_interval():
    values = rise(LINEAR)
    forwards = feature_learning_interval(LINEAR, values)
    backwards = feature_learning_interval(LINEAR, values.flip(0))
    assert (backwards.start, backwards.end) == (10000 - forwards.end, 10000 - forwards.start)


def judged(steps, alignment, pc1=0.97, size=0.0, **settings):
    shares = torch.full((len(steps),), pc1).double() + noise(len(steps), min(size, 0.01), seed=1)
    strict = {"flat": 0.02, "high": 0.5, "rank_one": 0.9}
    return plateau(steps, (alignment + noise(len(steps), size)).clamp(-1, 1), shares, **strict | settings)


@pytest.mark.parametrize("steps", [LINEAR, LOGARITHMIC], ids=["linear", "logarithmic"])
@pytest.mark.parametrize("seed", range(5))
def test_high_and_at_rest_and_of_rank_one_is_a_plateau(steps, seed):
    alignment = rise(steps, high=0.8) + noise(len(steps), 0.004, seed)
    found = judged(steps, alignment)
    assert found.reached, found.message
    assert found.alignment == pytest.approx(0.8, abs=0.01)
    assert found.message.startswith("More training is unlikely to help: PC1 is 0.970, alignment ")


@pytest.mark.parametrize("steps", [LINEAR, LOGARITHMIC], ids=["linear", "logarithmic"])
def test_gain_is_that_of_a_doubling(steps):
    """0.1 a doubling, exactly so for readings that are dense."""
    found = judged(steps, 0.1 * steps.double().clamp_min(1).log2() - 0.6)
    assert found.gain == pytest.approx(0.1, rel=0.15)
    assert not found.reached
    assert "alignment changed by +0.1" in found.message


@pytest.mark.parametrize(
    ("alignment", "pc1", "says"),
    [
        (rise(LINEAR, high=0.3), 0.97, "alignment is 0.300, below 0.5"),
        (rise(LINEAR, high=0.8), 0.6, "PC1 is 0.600, below 0.9"),
        (rise(LINEAR, start=2000, end=20000), 0.97, "alignment changed by +0.30"),
        (rise(LINEAR, start=2000, end=20000, low=1.0, high=0.5), 0.97, "alignment changed by -0.15"),
    ],
)
@pytest.mark.parametrize("size", [0.0, 0.005])
def test_each_reason_is_named(alignment, pc1, says, size):
    found = judged(LINEAR, alignment, pc1, size)
    assert not found.reached
    assert found.message.startswith("More training may help: ")
    if not size:
        assert says in found.message


def test_wild_readings_change_nothing_and_loud_noise_is_no_plateau():
    alignment = rise(LINEAR, high=0.8)
    alignment[::5] = -1
    assert judged(LINEAR, alignment).reached
    assert not judged(LINEAR, rise(LINEAR, high=0.8), size=0.3).reached


def test_as_a_stopping_rule_it_waits_for_grokking_and_then_stops():
    """A network that memorises at 100, groks from 1000 to 5000 and rests from then on."""
    steps = LOGARITHMIC
    alignment = rise(steps, 10, 100, 0.05, 0.2) + rise(steps, 1000, 5000, 0, 0.6) + noise(len(steps), 0.005)
    steps = torch.cat([steps, torch.arange(11000, 60000, 1000)])
    alignment = torch.cat([alignment, 0.8 + noise(len(steps) - len(alignment), 0.005, seed=2)])
    ready = [m for m in range(1, len(steps) + 1) if judged(steps[:m], alignment[:m]).reached]
    assert 15000 <= steps[ready[0] - 1] <= 25000
    assert ready == list(range(ready[0], len(steps) + 1))


def test_too_few_readings_are_no_verdict():
    found = plateau([0, 10, 20], [0.9, 0.9, 0.9], [1.0, 1.0, 1.0])
    assert (found.reached, found.gain, found.error) == (False, None, None)
    assert found.message == "Too few readings to tell: one of the parts up to step 20 has 1 of 3."
    assert not plateau([0], [0.9], [1.0]).reached


@pytest.mark.unchecked
@pytest.mark.parametrize(("alignment", "pc1", "drift"), [(0.19, 0.9, 0.0), (0.9, 0.29, 0.0), (0.9, 0.9, 0.06)])
def test_readings_of_twelve_in_a_factor_of_ten_will_do_and_each_default_is_needed(alignment, pc1, drift):
    """As `log_spaced(12)` has them, the spacing of most examples; `drift` is the gain of each doubling."""
    steps = [step for step in range(1, 10_001) if log_spaced(12)(step)]

    def rests(alignment, pc1, drift):
        series = [alignment + drift * (math.log2(step) - math.log2(steps[-1])) for step in steps]
        return plateau(steps, series, [pc1] * len(steps)).reached

    assert rests(0.21, 0.31, 0.01)
    assert not rests(alignment, pc1, drift)


def test_the_unit_of_steps_changes_nothing():
    alignment = rise(LINEAR, high=0.8) + noise(len(LINEAR), 0.01)
    assert judged(3 * LINEAR, alignment).gain == judged(LINEAR, alignment).gain
    assert judged(LINEAR / 65536, alignment).gain == judged(LINEAR, alignment).gain
    assert feature_learning_interval(3 * LINEAR, alignment).end == 3 * feature_learning_interval(LINEAR, alignment).end


@pytest.mark.bad_input
def test_bad_input_is_named():
    with pytest.raises(EmptyError, match=r"feature_learning_interval\(steps\): expected at least 2 readings, got 1"):
        feature_learning_interval([0], [1.0])
    with pytest.raises(EmptyError, match=r"plateau\(steps\): expected at least 1 readings, got 0"):
        plateau([], [], [])
    with pytest.raises(ShapeError, match=r"feature_learning_interval\(values\): expected 2 readings as in steps"):
        feature_learning_interval([0, 1], [1.0])
    with pytest.raises(ShapeError, match=r"plateau\(pc1\): expected 2 readings as in steps"):
        plateau([0, 1], [1.0, 1.0], [1.0])
    with pytest.raises(RangeError, match=r"expected steps that increase, got 1 after 1 at index 2"):
        feature_learning_interval([0, 1, 1], [1.0, 1.0, 1.0])
    with pytest.raises(RangeError, match=r"got 1,000,000 after 1,000,001.5 at index 2"):
        feature_learning_interval([999_999, 1_000_001.5, 1_000_000], [1.0, 1.0, 1.0])
    with pytest.raises(ShapeError, match=r"feature_learning_interval\(values\): expected numbers, .* of one length"):
        feature_learning_interval([0, 1], [[1.0, 2.0], [3.0]])
    with pytest.raises(TypeError, match=r"plateau\(alignment\): expected numbers, .* not NoneType\. Leave out what"):
        plateau([0, 1], [1.0, None], [1.0, 1.0])
    with pytest.raises(RangeError, match=r"plateau\(alignment\): expected numbers in \[-1, 1\], got 5 at index \(1,\)"):
        plateau([0, 1], [1.0, 5.0], [1.0, 1.0])
    with pytest.raises(RangeError, match=r"plateau\(pc1\): expected numbers in \[0, 1\], got -0.2 at index \(0,\)"):
        plateau([0, 1], [1.0, 1.0], [-0.2, 1.0])
    with pytest.raises(RangeError, match=r"feature_learning_interval\(values\): expected finite numbers, got nan"):
        feature_learning_interval([0, 1], [1.0, math.nan])
    with pytest.raises(RangeError, match=r"tolerance in \(0, 1\), got 2"):
        feature_learning_interval([0, 1], [1.0, 1.0], 2)
    with pytest.raises(RangeError, match=r"tolerance in \(0, 1\), got 1"):
        feature_learning_interval([0, 1], [1.0, 1.0], 1.0)
    with pytest.raises(RangeError, match=r"plateau: expected flat finite and above 0, got 0; rank_one in \[0, 1\]"):
        plateau([0, 1], [1.0, 1.0], [1.0, 1.0], flat=0, rank_one=1.5)
    with pytest.raises(RangeError, match=r"plateau: expected high in \[-1, 1\], got 1.5"):
        plateau([0, 1], [1.0, 1.0], [1.0, 1.0], high=1.5)
    with pytest.raises(ShapeError, match=r"plateau\(alignment"):
        plateau([0, 1], [[1.0], [1.0]], [1.0, 1.0])
    with pytest.raises(RangeError, match=r"steps from 0 or above, got -1.0"):
        plateau([-1, 1], [1.0, 1.0], [1.0, 1.0])


def test_a_gain_of_a_doubling_counts_as_rest_up_to_flat():
    """Both parts rest, so that the gain has no error; then with one, which counts twice."""
    steps = list(range(1, 101))
    for gain, reached in ((0.049, True), (0.051, False), (-0.049, True), (-0.051, False)):
        found = plateau(steps, [0.6 * (step > 1) + gain * (step > 50) for step in steps], [0.9] * 100)
        assert found.gain == pytest.approx(gain, abs=1e-6)
        assert found.error == 0
        assert found.reached is reached
    found = plateau(steps, [0.6 * (step > 1) + 0.01 * (-1) ** step * (step > 50) for step in steps], [0.9] * 100)
    assert found.error == pytest.approx(math.sqrt(math.pi / 2 / 50) * 1.4826 * 0.01)  # half its readings on either side
    scattered = [0.6 * (step > 1) + 0.01 * (step % 3) for step in steps]
    found = plateau(steps, scattered, [0.9] * 100)
    sure = abs(found.gain) + 2 * found.error
    assert found.error > 0
    assert [plateau(steps, scattered, [0.9] * 100, flat=times * sure).reached for times in (1.01, 0.99)] == [
        True,
        False,
    ]
