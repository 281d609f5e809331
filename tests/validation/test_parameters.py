"""One check of parameters: every parameter is declared, and every bad value is named."""

import inspect
from importlib import import_module

import numpy as np
import pytest

import nearkin
from nearkin import (
    SLDE,
    SLNE,
    Constraint,
    Execution,
    Hardest,
    Preprocess,
    Selection,
    SoftVotingKNN,
    UnitLength,
    Vote,
    WithinClassWhitening,
)
from nearkin.images import LLC, Codebook, DenseSIFT, OnnxEncoder
from nearkin.io.models import CLASSES
from nearkin.neighbors import nearest
from nearkin.validation import expect
from nearkin.validation.parameters import check_parameters, checked, shown
from samples import blobs

HUGE = 10**30
WITHOUT_PARAMETERS = {"Adapter", "Fixed", "Random"}  # made by models, not by the user
DECLARED = [
    getattr(import_module(CLASSES[name]), name)
    for name in sorted(CLASSES.keys() - WITHOUT_PARAMETERS)
]


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_every_parameter_is_declared(kind):
    assert set(kind.PARAMETERS) == set(inspect.signature(kind).parameters)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_no_parameter_takes_anything(kind):
    for name, expectation in kind.PARAMETERS.items():
        assert expectation(object()) or name == "callback", name


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SLNE.paper(n_neighbors=True), "n_neighbors=True must be a whole number >= 1"),
        (SLNE.paper(n_neighbors=HUGE), f"n_neighbors={HUGE} must be a whole number <= 2147483647"),
        (
            SLNE.paper(n_neighbors=10**5000),
            "n_neighbors=<int> must be a whole number <= 2147483647",
        ),
        (SLNE.paper(max_epochs=None), "max_epochs=None must be a whole number"),
        (SLNE.paper(step_size=HUGE**20), "step_size=.* must be a finite number > 0"),
        (
            SLNE.paper(validation_fraction=None),
            "validation_fraction=None must be a number >= 0 and < 1",
        ),
        (SLNE.paper(constraint=Constraint(psd="no")), "constraint.psd='no' must be True or False"),
        (
            SLNE.paper(execution=Execution(callback=5)),
            "execution.callback=5 must be a function or None",
        ),
        (SLNE.paper(warm_start=1), "warm_start=1 must be True or False"),
        (SLNE.paper(random_state=-1), "random_state=-1 must be a whole number >= 0"),
        (
            SLNE.paper(nearkin.SamplingRule()),
            "sampling=.* must be .*a subclass of SamplingRule that",
        ),
        (SLDE(projection=None), "projection=None must be one of 'pca'.*or a list of"),
        (SLDE(projection=[]), r"projection=\[\] must be .* a list of"),
        (SLDE(SLNE), r"learner=.* must be an object, not a class: give SLNE\(\)"),
        (SLDE(SLNE.paper(Hardest("a"))), "learner.sampling.margin='a' must be a number >= 0"),
        (SLDE(n_jobs=0), "n_jobs=0 must be a number of workers"),
        (SoftVotingKNN(SLNE.paper(tol=-1)), "similarity.tol=-1 must be a number >= 0"),
        (
            SoftVotingKNN(None, preprocess=Preprocess(power=0)),
            "preprocess.power=0 must be a number > 0",
        ),
        (
            SoftVotingKNN(selection=Selection("recall")),
            "selection.scoring='recall' must be one of 'classification', 'log_loss'",
        ),
        (SoftVotingKNN(selection=Selection(effort=0)), "selection.effort=0 must be a number > 0"),
        (SoftVotingKNN(selection=Selection(verbose=None)), "selection.verbose=None must be"),
        (SoftVotingKNN(selection="accuracy"), "selection='accuracy' must be"),
        (SoftVotingKNN(n_neighbors="few"), "n_neighbors='few' must be"),
        (SLNE(average=None), "average=None must be True or False"),
        (SLNE(step_size=0), "step_size=0 must be"),
        (UnitLength(power=0), "power=0 must be a number > 0"),
        (WithinClassWhitening(0), "shrinkage=0 must be a number > 0"),
        (WithinClassWhitening(unit_length=1), "unit_length=1 must be True or False"),
        (Preprocess(n_components=True), "n_components=True must be a whole number"),
        (Preprocess(center=None), "center=None must be True or False"),
        (nearkin.FourierFeatures(n_features=HUGE), "n_features=.* must be a whole number <="),
        (Codebook(n_words=None), "n_words=None must be a whole number"),
    ],
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        model.fit(*blobs(n=40))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LLC(pyramid=(0,)), r"pyramid=\(0,\) must be sides of grids"),
        (LLC(pyramid=(True,)), r"pyramid=\(True,\) must be sides of grids"),
        (LLC(max_side=None), "max_side=None must be a whole number"),
        (DenseSIFT(patch_sizes=()), r"patch_sizes=\(\) must be multiples of 4"),
        (OnnxEncoder(None), "model=None must be a path"),
        (OnnxEncoder("a.onnx", mean=(1, 2)), r"mean=\(1, 2\) must be one number or three"),
        (OnnxEncoder("a.onnx", batch_size=True), "batch_size=True must be a whole number"),
    ],
)
def test_bad_parameters_of_encoders_are_named(model, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        model.fit([b""])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nearest(np.ones((5, 2)), True), "k=True must be a whole number"),
        (lambda: nearest(np.ones((5, 2)), 1, n_jobs=1.5), "n_jobs=1.5 must be a number of workers"),
        (lambda: nearkin.load(5), "path=5 must be a path"),
        (lambda: nearkin.load("a\0"), r"path='a\\x00' must be a path"),
        (lambda: nearkin.RunFolder(None), "path=None must be a path"),
        (lambda: Vote("loud"), "kind='loud' must be one of 'similarity'"),
        (lambda: Vote("power", class_weight=1.1), "class_weight=1.1 must be a number"),
        (
            lambda: Vote("power", class_temperature=0),
            "class_temperature=0 must be",
        ),
        (lambda: Vote("power", smoothing=-0.1), "smoothing=-0.1 must be a number >= 0"),
        (lambda: Vote("power", csls=-1), "csls=-1 must be a number >= 0"),
        (lambda: nearkin.datasets.read(None), "path=None must be a path"),
        (lambda: nearkin.metrics.top_n_accuracy([[1]], [1], n=True), "n=True must be a whole"),
        (lambda: nearkin.metrics.calibration([[1.0]], [True], None), "bins=None must be a whole"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


def test_numpy_scalars_are_numbers():
    model = SLNE.paper(n_neighbors=np.int64(3), tol=np.float32(0), warm_start=np.bool_(True))
    check_parameters(model)


def test_an_unknown_name_is_refused_when_the_function_is_made():
    with pytest.raises(TypeError, match=r"has no parameters \['b'\]"):

        @checked(b=expect.flag)
        def function(a):
            return a


def test_a_shown_value_is_one_short_line():
    for value in (list(range(10**6)), "a" * 10**6, np.ones((500, 500)), SLNE.paper()):
        assert len(shown(value)) < 200
        assert "\n" not in shown(value)
