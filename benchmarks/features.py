"""What LLC features of Caltech-101 cost, with SIFT every 8 pixels in patches of 16 to 32.

By default it is every 6 in patches of 16 to 48, which takes nearly twice the time.

python benchmarks/features.py --data DIR [--images N] [--onnx FILE] [--vlfeat LIBRARY] [--pca]

DIR holds caltech101.tar; `--images 0` takes all 9,144 images (about 5 minutes on two cores). The
descriptors are compared with vl_dsift where the VLFeat library is (Debian: libvlfeat1).
"""

import argparse
import ctypes
import ctypes.util
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

import caltech
import machine
from nearkin import Preprocess
from nearkin.images import LLC, DenseSIFT, ImageFolder, OnnxEncoder
from nearkin.images.llc_coding import codes, max_pool, nearest_words, pyramid_cells
from nearkin.images.reading import read_grey
from nearkin.reproduction.tasks import PAPERS

Rows = list[tuple[str, str, str]]

SAMPLED = PAPERS.llc


def unpacked(data: Path, work: Path) -> Path:
    root = work / "caltech101"
    if not root.exists():
        with tarfile.open(data / "caltech101.tar") as archive:
            archive.extractall(work, filter="data")
    return root


@contextmanager
def peak_anonymous(result: list[float], every: float = 0.05) -> Iterator[None]:
    """Append the largest sum of RssAnon over this process and its children, in MiB."""
    stop, peak = threading.Event(), [0.0]

    def watch() -> None:
        me = psutil.Process()
        while not stop.wait(every):
            pids = [me.pid, *(child.pid for child in me.children(recursive=True))]
            peak[0] = max(peak[0], sum(map(anonymous, pids)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        result.append(peak[0])


def anonymous(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def stages(llc: LLC, paths: list[str]) -> Rows:
    """Time of one core in each step; the whole is measured apart, through `encode`."""
    spent = dict.fromkeys(("decode", "SIFT", "coding", "pooling"), 0.0)

    def timed(name: str, function, *args):
        start = time.process_time()
        result = function(*args)
        spent[name] += time.process_time() - start
        return result

    with threadpool_limits(1):
        llc.encode(paths[:3])
        for path in paths:
            grey = timed("decode", read_grey, path, llc.max_side)
            found = timed("SIFT", DenseSIFT(**SAMPLED).describe, grey)
            rows = found.descriptors[found.descriptors.any(axis=1)]
            nearest = timed("coding", nearest_words, rows, llc.words_, 5)
            weights = timed("coding", codes, rows, llc.words_, nearest, 1e-4)
            centres = found.centres[found.descriptors.any(axis=1)]
            cells = timed("pooling", pyramid_cells, centres, grey.shape, llc.pyramid)
            timed("pooling", max_pool, weights, nearest, cells, np.zeros((21, 2048), "f"))
        start = time.process_time()
        for path in paths:
            llc.encode([path])
        spent["whole path"] = time.process_time() - start
    each = {name: f"{1000 * seconds / len(paths):.1f}" for name, seconds in spent.items()}
    wanted = {"whole path": "≤ 30"}
    return [(f"{name}, ms an image and core", each[name], wanted.get(name, "")) for name in each]


def core_seconds() -> float:
    """Time of all cores spent by this process and its children."""
    me = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (me, *me.children(recursive=True)))


def extraction(llc: LLC, folder: ImageFolder, work: Path) -> Rows:
    rows, seconds, peaks = [], {}, []
    for n_jobs in (1, 2):
        llc.transform(folder[:64], n_jobs=n_jobs)  # start the processes
        out = Path(tempfile.mkdtemp(dir=work)) / "features.npy"
        with peak_anonymous(peaks):
            cores, start = core_seconds(), time.perf_counter()
            llc.transform(folder, out=out, dtype="float16", n_jobs=n_jobs)
            seconds[n_jobs] = time.perf_counter() - start
            cores = core_seconds() - cores
        shutil.rmtree(out.parent)
        for name, spent in (("ms an image", seconds[n_jobs]), ("of all cores together", cores)):
            each = f"{1000 * spent / len(folder):.1f}"
            rows.append((f"transform n_jobs={n_jobs}, {name}", each, ""))
    return [
        *rows,
        ("speed-up of two processes", f"{seconds[1] / seconds[2]:.2f}", "near 2"),
        ("peak anonymous memory, MiB", f"{max(peaks):.0f}", "≤ 2,048"),
    ]


class _Filter(ctypes.Structure):
    """The head of VLFeat's VlDsiftFilter."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("w", "h", "step_x", "step_y")),
        *((name, ctypes.c_int) for name in ("min_x", "min_y", "max_x", "max_y")),
        *((name, ctypes.c_int) for name in ("bins_t", "bins_x", "bins_y")),
        *((name, ctypes.c_int) for name in ("size_x", "size_y", "flat")),
        ("window", ctypes.c_double),
        *((name, ctypes.c_int) for name in ("n_frames", "length")),
        ("frames", ctypes.POINTER(ctypes.c_double)),
        ("descriptors", ctypes.POINTER(ctypes.c_float)),
    ]


def vl_dsift(library: ctypes.CDLL, grey: np.ndarray, step: int, size: int, first) -> np.ndarray:
    """VLFeat's descriptors of patches whose first centre is at `first` (y, x)."""
    image = np.ascontiguousarray(grey, dtype=np.float32) / np.float32(255)
    height, width = image.shape
    library.vl_dsift_new_basic.restype = ctypes.POINTER(_Filter)
    state = library.vl_dsift_new_basic(width, height, step, size // 4)
    # VLFeat's bounds are those of the centres of the outer bins.
    reach = size * 3 / 8
    state.contents.min_y, state.contents.min_x = (int(centre - reach) for centre in first)
    state.contents.max_y = height - size // 8
    state.contents.max_x = width - size // 8
    library._vl_dsift_update_buffers(state)
    library.vl_dsift_process(state, image.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
    shape = (state.contents.n_frames, state.contents.length)
    found = np.ctypeslib.as_array(state.contents.descriptors, shape).copy()
    library.vl_dsift_delete(state)
    return found


def agreement(paths: list[str], name: str | None) -> Rows:
    name = name or ctypes.util.find_library("vl")
    if name is None:
        return [("cosine to vl_dsift", "VLFeat not found", "≥ .99")]
    library = ctypes.CDLL(name)
    cosines = []
    for path in paths:
        grey = read_grey(path, 300)
        for size in (16, 24, 32, 48):
            ours = DenseSIFT(8, (size,)).describe(grey)
            theirs = vl_dsift(library, grey, 8, size, ours.centres[0])
            textured = ours.descriptors.any(axis=1)
            cosines.append((ours.descriptors * theirs).sum(axis=1)[textured])
    return [("cosine to vl_dsift, mean", f"{np.concatenate(cosines).mean():.5f}", "≥ .99")]


def network(file: Path, folder: ImageFolder) -> Rows:
    encoder = OnnxEncoder(file, output="features")
    encoder.transform(folder[:16])
    start = time.process_time()
    encoder.transform(folder)
    each = 1000 * (time.process_time() - start) / len(folder)
    return [("ONNX encoder, ms an image and core", f"{each:.1f}", "")]


def reduction(data: Path, work: Path) -> Rows:
    """PCA to 3,000 dimensions: fitted on 30 images a class, applied to all."""
    features, labels = caltech.llc_features(data, work)
    peak: list[float] = []
    start = time.perf_counter()
    with peak_anonymous(peak), tempfile.TemporaryDirectory(dir=work) as temporary:
        prepare = Preprocess(3_000).fit(features[caltech.split(labels, 0)])
        prepare.transform(features, out=Path(temporary) / "rows.npy")
    seconds = time.perf_counter() - start
    return [
        ("PCA of all images, seconds", f"{seconds:.0f}", ""),
        ("PCA of all images, peak MiB", f"{peak[0]:.0f}", "< 4096"),
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with caltech101.tar")
    parser.add_argument("--work", type=Path, help="where to unpack and write; default: temporary")
    parser.add_argument("--images", type=int, default=400, help="how many; 0 for all")
    parser.add_argument("--onnx", type=Path, help="network with an output called features")
    parser.add_argument("--pca", action="store_true", help="also the PCA of all images")
    parser.add_argument("--vlfeat", help="path of libvl.so, if the system does not find it")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        folder = ImageFolder(unpacked(options.data, work))
        if options.images:
            folder = folder[np.linspace(0, len(folder) - 1, options.images).astype(int)]
        sample = folder[:: max(1, len(folder) // 200)]
        start = time.perf_counter()
        llc = LLC(**SAMPLED).fit(folder)
        rows: Rows = [("codebook, seconds", f"{time.perf_counter() - start:.0f}", "")]
        rows += stages(llc, sample.paths)
        rows += extraction(llc, folder, work)
        rows += agreement(sample.paths[::5], options.vlfeat)
        if options.onnx:
            rows += network(options.onnx, sample)
        if options.pca:
            rows += reduction(options.data, work)
    print(machine.facts())
    print(f"{len(folder):,} images, 2,048 words, 43,008 dimensions")
    print(f"{'':40}{'measured':>18}{'wanted':>10}")
    for name, value, wanted in rows:
        print(f"{name:40}{value:>18}{wanted:>10}")


if __name__ == "__main__":
    main()
