"""`method.frame`: each method with the defaults of its source, or with those that all share in a comparison."""

import pytest
from by_hand import KNOWN

from diver.losses import CispoLoss, ClipLoss, HighEntropyLoss
from diver.methods import METHODS, method_named
from diver.recipe.load import load_recipe

OWN = {"clip-cov", "kl-cov", "cispo", "gspo", "gmpo", "sapo", "dppo"}  # the clip is what they change; by hand
SHARED = ("aggregation", "kl_coef", "entropy_coef", "clip_low", "clip_high")


@pytest.mark.parametrize("name", METHODS)
def test_in_the_common_frame_only_the_method_differs_from_clip_higher(name):
    method, baseline = method_named(name, frame="common"), method_named("clip-higher")
    assert method.frame == "common" and type(method.loss) is type(method_named(name).loss)
    if name == "entropy-bonus":
        assert method.loss == ClipLoss(entropy_coef=0.001)
    elif "clip_low" in method.loss.common:
        assert [getattr(method.loss, key) for key in SHARED] == [getattr(baseline.loss, key) for key in SHARED]
    else:
        aggregation = method.loss.common["aggregation"]  # that of gspo and gmpo is their definition
        assert [getattr(method.loss, key) for key in SHARED[:3]] == [aggregation, 0, 0]


def test_the_frame_by_hand():
    assert {name for name in KNOWN if "clip_low" not in method_named(name).loss.common} == OWN
    others = {name for name in KNOWN if method_named(name).loss.common["aggregation"] != "token-mean"}
    assert others == {"gspo", "gmpo"}
    assert method_named("grpo").loss == ClipLoss(clip_low=0.2, clip_high=0.2)
    assert method_named("grpo", frame="common").loss == ClipLoss(clip_low=0.2, clip_high=0.28)
    assert method_named("cispo", frame="common").loss == CispoLoss(clip_low=1.0, clip_high=4.0)
    assert (method_named("darling").divisor, method_named("darling", frame="common").divisor) == ("none", "std")
    assert method_named("dr-grpo", frame="common").divisor == "none"  # which is the method
    assert method_named("high-entropy", frame="common").loss == HighEntropyLoss()


def test_a_key_that_is_given_has_the_last_word():
    assert method_named("grpo", frame="common", loss={"name": "high-entropy", "kl_coef": 0.1}).loss.kl_coef == 0.1
    loss = method_named("grpo", frame="common", loss={"clip_high": 0.3, "kl_coef": 0.1}).loss
    assert (loss.clip_high, loss.kl_coef) == (0.3, 0.1)


def test_the_frame_by_a_flag_and_in_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[method]\nname = 'grpo'\nloss.aggregation = 'token-sum'\n")
    given = load_recipe(path, ["--method.frame", "common"]).method
    assert given == method_named("grpo", frame="common", loss={"aggregation": "token-sum"})
    path.write_text("[method]\nname = 'grpo'\nframe = 'common'\n")
    assert load_recipe(path).method.loss.clip_high == 0.28
    assert load_recipe(path, ["--method", "grpo"]).method.loss.clip_high == 0.2  # the whole table is replaced
