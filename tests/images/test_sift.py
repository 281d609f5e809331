"""Dense SIFT against a histogram of each patch, pixel by pixel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from nearkin.images import DenseSIFT, ImageError
from pictures import textured


def plain_descriptor(image, top, left, size):
    """One patch by the definition: every pixel votes for orientations and bins around it."""
    dy, dx = np.gradient(image.astype(np.float64))
    s = size // 4
    histogram = np.zeros((4, 4, 8))
    for y in range(max(0, top - s), min(image.shape[0], top + size + s)):
        for x in range(max(0, left - s), min(image.shape[1], left + size + s)):
            length = np.hypot(dy[y, x], dx[y, x])
            angle = np.arctan2(dy[y, x], dx[y, x]) % (2 * np.pi) * 8 / (2 * np.pi)
            # Place of the pixel in bins, from the centre of the first, and from the patch's.
            v, u = (y - top - s // 2) / s, (x - left - s // 2) / s
            window = np.exp(-((v - 1.5) ** 2 + (u - 1.5) ** 2) / (2 * 2.0**2))
            for i in range(4):
                for j in range(4):
                    near = max(0, 1 - abs(v - i)) * max(0, 1 - abs(u - j))
                    for o in range(8):
                        turn = abs(angle - o)
                        share = max(0, 1 - min(turn, 8 - turn))
                        histogram[i, j, o] += length * window * near * share
    vector = histogram.ravel()
    vector = np.minimum(vector / np.linalg.norm(vector), 0.2)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("size", [8, 16, 20, 24, 32])
def test_against_plain_histograms(size):
    image = textured(size, 40, 53) / 255
    patches = DenseSIFT(step=17, patch_sizes=(size,)).describe(image)
    corners = (patches.centres - size / 2).astype(int)
    expected = [plain_descriptor(image, top, left, size) for top, left in corners]
    np.testing.assert_allclose(patches.descriptors, expected, atol=2e-4)


def test_grid_lies_within_the_image_and_is_centred():
    sift = DenseSIFT()
    patches = sift.describe(textured(0, 100, 150))
    at, step = 0, sift.step
    for size in sift.patch_sizes:
        rows, columns = (100 - size) // step + 1, (150 - size) // step + 1
        centres = patches.centres[at : at + rows * columns]
        at += rows * columns
        low, high = centres.min(axis=0) - size / 2, centres.max(axis=0) + size / 2
        assert (low >= 0).all()
        assert (high <= (100, 150)).all()
        assert (np.abs(low - ((100, 150) - high)) <= 1).all()
        assert centres[1].tolist() == [centres[0, 0], centres[0, 1] + step]
    assert at == len(patches.descriptors) == len(patches.centres)


def test_unit_length_and_type():
    descriptors = DenseSIFT().describe(textured(0)).descriptors
    assert descriptors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(descriptors, axis=1), 1, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(shift=st.floats(-0.4, 0.4), gain=st.floats(0.5, 2), seed=st.integers(0, 99))
def test_brightness_and_contrast_do_not_matter(shift, gain, seed):
    image = textured(seed, 40, 48) / 255
    sift = DenseSIFT(patch_sizes=(16,))
    first, second = sift.describe(image), sift.describe(gain * image + shift)
    np.testing.assert_allclose(first.descriptors, second.descriptors, atol=1e-3)


def test_moved_by_a_step_the_descriptors_move_along():
    image = textured(3, 96, 96)
    sift = DenseSIFT(step=8, patch_sizes=(16,))
    whole, moved = sift.describe(image), sift.describe(image[:, 8:])
    grid, narrow = (p.descriptors.reshape(11, -1, 128) for p in (whole, moved))
    # The patches at the new border see fewer pixels.
    np.testing.assert_allclose(grid[:, 2:], narrow[:, 1:], atol=1e-5)


def test_blank_patches_are_zero():
    image = np.full((64, 64), 200, np.uint8)
    assert not DenseSIFT().describe(image).descriptors.any()
    image[:, 48:] += np.arange(16, dtype=np.uint8) * 3
    lengths = np.linalg.norm(DenseSIFT().describe(image).descriptors, axis=1)
    assert set(lengths.round(4)) == {0, 1}


def test_a_ramp_is_blank_below_the_threshold_only():
    ramp = np.outer(np.ones(40), np.arange(40))
    sift = DenseSIFT(patch_sizes=(16,))
    centre = np.ravel_multi_index((1, 1), (4, 4))
    assert not sift.describe(0.0049 * ramp).descriptors[centre].any()
    assert sift.describe(0.0052 * ramp).descriptors[centre].any()


def test_bytes_and_floats_agree():
    image = textured(5)
    np.testing.assert_allclose(
        DenseSIFT().describe(image).descriptors,
        DenseSIFT().describe(image / 255).descriptors,
        atol=1e-4,
    )


def test_sizes_that_do_not_fit_are_left_out():
    sift = DenseSIFT(step=8, patch_sizes=(16, 24, 32))
    assert len(sift.describe(textured(0, 20, 70)).descriptors) == 1 * 7
    with pytest.raises(ImageError, match=r"15×80 pixels, smaller than the smallest patch \(16"):
        DenseSIFT().describe(textured(0, 80, 15))


def test_transform_is_a_list():
    first, second = DenseSIFT().fit().transform([textured(0), textured(1, 40, 40)])
    assert first.shape[1] == second.shape[1] == 128
    assert len(first) > len(second)


def test_read_only_and_strided_images():
    image = textured(0, 80, 80)
    image.flags.writeable = False
    expected = DenseSIFT().describe(image[::2, ::2].copy()).descriptors
    assert (DenseSIFT().describe(image[::2, ::2]).descriptors == expected).all()


def test_clone():
    assert clone(DenseSIFT(step=4)).get_params() == {"step": 4, "patch_sizes": (16, 24, 32, 48)}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"step": 0}, "step=0"),
        ({"step": 2.5}, "step=2.5 must be a whole number"),
        ({"patch_sizes": ()}, "patch_sizes"),
        ({"patch_sizes": 16}, "patch_sizes=16"),
        ({"patch_sizes": (15,)}, "multiples of 4"),
        ({"patch_sizes": (4,)}, "at least 8"),
        ({"patch_sizes": (16.0,)}, "patch_sizes"),
    ],
)
def test_bad_settings(params, message):
    with pytest.raises(ValueError, match=message):
        DenseSIFT(**params).fit()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((40, 40, 3), np.uint8), r"shape \(40, 40, 3\)"),
        (np.zeros((0, 40), np.uint8), r"shape \(0, 40\)"),
        (np.zeros((40, 40), np.int64), "type int64"),
        (np.full((40, 40), np.nan), "values from nan to nan"),
        (np.full((40, 40), 1e39), "values from 1e.39"),
        (np.full((40, 40), np.float32(3e38)), "values from 3e.38"),
    ],
)
def test_bad_images(image, message):
    with pytest.raises(ValueError, match=message):
        DenseSIFT().describe(image)


@pytest.mark.parametrize("X", ["", {}, 5, None, len])
def test_what_is_no_list_of_images(X):
    with pytest.raises(TypeError, match="must be a list of grey images"):
        DenseSIFT().transform(X)


def test_small_integer_types_do_not_overflow():
    image = textured(0, 300, 280)
    usual = DenseSIFT(8, (16, 200)).describe(image)
    small = DenseSIFT(np.uint8(8), (np.uint8(16), np.uint8(200))).describe(image)
    np.testing.assert_array_equal(usual.descriptors, small.descriptors)
    np.testing.assert_array_equal(usual.centres, small.centres)
