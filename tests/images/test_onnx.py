"""ONNX encoders: real networks, small ones, run on real image bytes."""

import pickle
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn.base import clone

from nearkin.images import ImageFolder, OnnxEncoder, UnreadableImages
from nearkin.images.onnx import _output
from nearkin.images.reading import read_window
from pictures import encoded, textured

MATRIX = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)


def network(path, shape=("n", 3, 32, 32), layout="NCHW", kind=TensorProto.FLOAT, channels=3):
    """The mean colour of an image (`pooled`, N×C×1×1) times a matrix (`features`, N×5)."""
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    nodes = [
        helper.make_node("Cast", ["image"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["float", "axes"], ["pooled"], keepdims=1),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["features"]),
    ]
    constants = {"matrix": MATRIX[:channels], "axes": np.array(axes, dtype=np.int64)}
    graph = helper.make_graph(
        nodes,
        "mean colour",
        [helper.make_tensor_value_info("image", kind, shape)],
        [helper.make_tensor_value_info(name, 1, None) for name in ("features", "pooled")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return str(path)


def expected(data, size=(32, 32), crop=0.875, mean=127.0, scale=128.0):
    pixels = read_window(data, size, crop).astype(np.float64)
    return ((pixels - mean) / scale).mean(axis=(0, 1)) @ MATRIX


@pytest.fixture
def images():
    return [encoded(np.dstack([textured(3 * i + c) for c in range(3)]), "PNG") for i in range(7)]


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        (("n", 3, 32, 32), "NCHW"),
        (("n", 32, 32, 3), "NHWC"),
        ((1, 3, 32, 32), "NCHW"),
        ((4, 32, 32, 3), "NHWC"),
        ((None, 3, 24, 40), "NCHW"),
    ],
)
def test_input_is_read_from_the_file(tmp_path, images, shape, layout):
    model = network(tmp_path / "m.onnx", shape, layout)
    features = OnnxEncoder(model, output="features", batch_size=3).transform(images)
    size = shape[2:] if layout == "NCHW" else shape[1:3]
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, [expected(i, size) for i in images], atol=1e-4)


def test_open_dimensions_must_be_given(tmp_path, images):
    model = network(tmp_path / "m.onnx", ("n", "c", "h", "w"))
    with pytest.raises(ValueError, match="does not tell the layout: pass layout='NCHW' or"):
        OnnxEncoder(model, output="features").transform(images)
    with pytest.raises(ValueError, match="leaves the size of its input open: pass size"):
        OnnxEncoder(model, output="features", layout="NCHW").transform(images)
    for size in (32, (32, 32)):
        features = OnnxEncoder(model, "features", size=size, layout="NCHW").transform(images)
        np.testing.assert_allclose(features, [expected(i) for i in images], atol=1e-4)


def test_ambiguous_layout(tmp_path):
    model = network(tmp_path / "m.onnx", ("n", 3, 32, 3))
    with pytest.raises(ValueError, match="layout"):
        OnnxEncoder(model, output="features").fit()
    assert OnnxEncoder(model, output="features", layout="NCHW").fit()


def test_mean_scale_and_crop(tmp_path, images):
    model = network(tmp_path / "m.onnx")
    mean, scale = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    encoder = OnnxEncoder(model, "features", mean=mean, scale=scale, crop=1.0)
    np.testing.assert_allclose(
        encoder.transform(images),
        [expected(i, crop=1.0, mean=mean, scale=scale) for i in images],
        atol=1e-4,
    )


def test_networks_of_bytes_and_of_half_precision(tmp_path, images):
    bytes_model = network(tmp_path / "b.onnx", kind=TensorProto.UINT8)
    features = OnnxEncoder(bytes_model, "features").transform(images)
    raw = [expected(i, mean=0.0, scale=1.0) for i in images]
    np.testing.assert_allclose(features, raw, rtol=1e-4)
    half_model = network(tmp_path / "h.onnx", kind=TensorProto.FLOAT16)
    features = OnnxEncoder(half_model, "features").transform(images)
    np.testing.assert_allclose(features, [expected(i) for i in images], atol=1e-3)


def test_grey_networks(tmp_path):
    model = network(tmp_path / "m.onnx", ("n", 1, 20, 20), channels=1)
    image = encoded(np.full((40, 40), 63, np.uint8))
    features = OnnxEncoder(model, "features").transform([image])
    np.testing.assert_allclose(features[0], -0.5 * MATRIX[0], atol=1e-5)


def test_outputs_with_more_axes_are_flattened(tmp_path, images):
    assert OnnxEncoder(network(tmp_path / "m.onnx"), "pooled").transform(images).shape == (7, 3)


def test_outputs_are_listed(tmp_path):
    model = network(tmp_path / "m.onnx")
    for output in (None, "logits"):
        with pytest.raises(ValueError, match=r"outputs, features .*, pooled") as error:
            OnnxEncoder(model, output=output).fit()
        assert "--output features" in str(error.value)


@pytest.mark.parametrize(
    ("outputs", "best"),
    [
        ({"logits": ["n", 1000], "embedding": ["n", 384]}, "embedding"),
        ({"probabilities": ["n", 9], "dense_7": ["n", 64], "map": ["n", 64, 7, 7]}, "dense_7"),
        ({"a": ["n", 10], "b": ["n", 512]}, "b"),
        ({"last_hidden_state": ["n", 197, 768], "pooler_output": ["n", 768]}, "pooler_output"),
    ],
)
def test_the_output_that_is_suggested(outputs, best):
    nodes = [SimpleNamespace(name=name, shape=shape) for name, shape in outputs.items()]
    with pytest.raises(ValueError, match=f"output='{best}'"):
        _output(nodes, None)


def test_features_have_names_and_come_as_data_frames(tmp_path, images):
    encoder = OnnxEncoder(network(tmp_path / "m.onnx"), "features").set_output(transform="pandas")
    frame = encoder.transform(images=images)  # by keyword, too
    assert list(frame.columns) == [f"onnxencoder{i}" for i in range(5)]
    plain = OnnxEncoder(encoder.model, "features").transform(images)
    np.testing.assert_array_equal(frame.to_numpy(), plain)


def test_same_bits_however_it_is_run(tmp_path, picture_folder):
    folder = ImageFolder(picture_folder(classes=2, images=6))
    encoder = OnnxEncoder(network(tmp_path / "m.onnx"), "features", batch_size=4)
    alone = encoder.transform(folder)
    assert (encoder.transform(folder, n_jobs=2) == alone).all()
    assert (encoder.transform(folder, out=tmp_path / "e.npy", n_jobs=2) == alone).all()


def test_bad_images_do_not_disturb_the_others(tmp_path, images):
    encoder = OnnxEncoder(network(tmp_path / "m.onnx"), "features", batch_size=4)
    good = encoder.transform(images)
    spoilt = [*images[:2], b"junk", *images[3:]]
    with pytest.raises(UnreadableImages, match="1 of 7"):
        encoder.transform(spoilt)
    with pytest.warns(UserWarning, match="1 of 7"):
        features = encoder.transform(spoilt, on_error="skip")
    assert not features[2].any()
    assert (np.delete(features, 2, axis=0) == np.delete(good, 2, axis=0)).all()
    assert encoder.failed_[0][0] == "<4 bytes>"


@pytest.mark.filterwarnings("ignore:overflow")
def test_output_that_is_not_finite_is_a_failure(tmp_path, images):
    encoder = OnnxEncoder(network(tmp_path / "m.onnx"), "features", scale=1e-45)
    with pytest.raises(UnreadableImages, match="not finite"):
        encoder.transform(images)


def test_another_network_is_another_setting(tmp_path, images):
    model = tmp_path / "m.onnx"
    OnnxEncoder(network(model), "features").transform(images, folder=tmp_path / "work")
    with pytest.raises(ValueError, match=r"crop is 0\.875 there and 1\.0 here"):
        OnnxEncoder(model, "features", crop=1.0).transform(images, folder=tmp_path / "work")
    network(model, ("m", 3, 32, 32))
    with pytest.raises(ValueError, match="model differs"):
        OnnxEncoder(model, "features").transform(images, folder=tmp_path / "work")


def test_one_row_for_the_whole_batch_is_refused(tmp_path, images):
    model = network(tmp_path / "m.onnx")
    graph = onnx.load(model)
    graph.graph.node.append(helper.make_node("ReduceMean", ["features"], ["one"], keepdims=0))
    graph.graph.output.append(helper.make_tensor_value_info("one", 1, None))
    onnx.save(graph, model)
    with pytest.raises(ValueError, match="expected one row per image"):
        OnnxEncoder(model, "one").transform(images)


def test_files_that_are_no_networks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"model='nothing\.onnx'"):
        OnnxEncoder("nothing.onnx").fit()
    with pytest.raises(FileNotFoundError, match="must be an ONNX file; it is not a regular file"):
        OnnxEncoder(tmp_path).fit()
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(ValueError, match="cannot be loaded as an ONNX network"):
        OnnxEncoder(tmp_path / "text.onnx").fit()


def test_networks_of_something_else_than_images(tmp_path):
    words, vectors = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ("n", 12)) for name in "ab"
    )
    graph = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["b"])], "text", [words], [vectors]
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "text.onnx")
    with pytest.raises(
        ValueError, match=r"takes a tensor\(int64\) \['n', 12\]: expected one batch"
    ):
        OnnxEncoder(tmp_path / "text.onnx").fit()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size": 64}, "size=64: the file says 32×32"),
        ({"layout": "CHW"}, "layout='CHW'"),
        ({"layout": "NHWC"}, "has 32 channels"),
        ({"crop": 0}, "crop=0"),
        ({"crop": 1.5}, "crop=1.5"),
        ({"crop": "a"}, "crop='a' must be a number"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.5}, r"batch_size=2\.5 must be a whole number"),
        ({"size": 32.5}, r"size=32\.5 must be a whole number"),
        ({"size": (32, 32, 3)}, r"size=\(32, 32, 3\) must be"),
        ({"mean": (1, 2)}, r"mean=\(1, 2\)"),
        ({"scale": (1, 0, 1)}, "none of them zero"),
    ],
)
def test_bad_settings(tmp_path, params, message):
    with pytest.raises(ValueError, match=message):
        OnnxEncoder(network(tmp_path / "m.onnx"), "features", **params).fit()


def test_clone(tmp_path):
    encoder = OnnxEncoder(tmp_path / "m.onnx", output="features", size=(10, 12))
    assert clone(encoder).get_params() == encoder.get_params()


def test_without_onnxruntime_the_extra_is_named(tmp_path, monkeypatch):
    model = network(tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"nearkin\[onnx\]"):
        OnnxEncoder(model).fit()


def test_workers_get_the_path_of_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encoder = OnnxEncoder("net.onnx")
    assert pickle.loads(pickle.dumps(encoder)).model == str(tmp_path / "net.onnx")
    assert encoder.model == clone(encoder).model == "net.onnx"
