"""`nearkin serve` under load, beside a bare faiss index behind the same framework, in one run.

    python benchmarks/serve.py --work DIR [--rows 50000] [--dims 512] [--clients 64] [--seconds 60]
    python benchmarks/serve.py --work DIR --rows 1200000 --dims 256

Made-up rows. Each service is a process of its own on loopback, FastAPI and uvicorn; the load comes
from this process, on the same cores: so many clients, each asking for the ten nearest rows of one
vector and asking anew when it has the answer. The bare services parse the same JSON, search in the
threads that the framework gives them, and answer row and score. nearkin answers by the learned
similarity: it searches a shortlist of ten, scores it under M and adds labels.

Up to 100,000 rows nearkin is exact and stands beside IndexFlatIP. Above, beside IVF-Flat with as
many probes as reach nearkin's recall (of the ten nearest, on `CHECKED` queries), and HNSW, as broad
as reaches it, too. CPU is that of the service, for a request; the ratio is nearkin's p50 over that
of the row. DIR keeps rows, model and indexes for the next run.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import machine
from made_up import World

N, CHECKED, ASKED = 10, 500, 512
LEARNED_ROWS = 5_000
EXACT_ROWS = 100_000
DIALS = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]

HEAD = """| service | recall@10 | requests/s | p50 ms | p99 ms | errors | CPU ms | p50 ratio |
|---|---|---|---|---|---|---|---|"""


class Files:
    """What a size needs, made once and kept in the work folder."""

    def __init__(self, work: Path, rows: int, dims: int) -> None:
        self.rows, self.dims = rows, dims
        self.folder = work / f"{rows}x{dims}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str, make: Callable[[Path], None]) -> Path:
        path = self.folder / name
        if not path.exists():
            print(f"making {path} …", file=sys.stderr)
            part = path.with_name(f"part-{name}")
            make(part)
            part.rename(path)
        return path

    def vectors(self) -> np.ndarray:
        return np.load(self.get("rows.npy", self._make_rows), mmap_mode="r")

    def _make_rows(self, path: Path) -> None:
        X = np.lib.format.open_memmap(path, "w+", np.float32, (self.rows, self.dims))
        labels = np.empty(self.rows, np.int32)
        for lo, block, own in World(self.dims).blocks(self.rows):
            X[lo : lo + len(block)], labels[lo : lo + len(block)] = block, own
        np.save(self.folder / "labels.npy", labels)
        X.flush()

    def queries(self) -> np.ndarray:
        return next(World(self.dims).blocks(ASKED + CHECKED, part=1))[1].astype(np.float32)

    def model(self) -> Path:
        return self.get("model.safetensors", self._make_model)

    def _make_model(self, path: Path) -> None:
        from nearkin import SLNE, SoftVotingKNN

        X = self.vectors()
        y = np.load(self.folder / "labels.npy")
        learner = SLNE("softmax", n_neighbors=20, max_epochs=1, prepare=None, random_state=0)
        learner.fit(np.array(X[:LEARNED_ROWS]), y[:LEARNED_ROWS])
        options = {"preprocess": None, "vote": "softmax", "n_neighbors": N}
        SoftVotingKNN(learner, **options).fit(X, y).save(path)

    def index(self, kind: str) -> Path:
        return self.get(f"{kind}.faiss", lambda path: self._make_index(kind, path))

    def _make_index(self, kind: str, path: Path) -> None:
        import faiss

        cells = 2 ** int(np.log2(4 * np.sqrt(self.rows)))
        factory = {"Flat": "Flat", "IVF": f"IVF{cells},Flat", "HNSW": "HNSW32"}[kind]
        index = faiss.index_factory(self.dims, factory, faiss.METRIC_INNER_PRODUCT)
        X = np.ascontiguousarray(self.vectors())
        if not index.is_trained:
            index.train(X[:: max(1, len(X) // (64 * cells))])
        index.add(X)
        faiss.write_index(index, str(path))


# ---- services, each in a process of its own


def serve_nearkin(files: Files) -> Any:
    import nearkin
    from nearkin.app.finished_run import TrainedModel
    from nearkin.serve.engine import open_engine
    from nearkin.serve.reload import Holder
    from nearkin.serve.service import create_app

    path = files.model()
    return create_app(Holder(lambda: open_engine(TrainedModel(nearkin.load(path)), None), path))


def serve_faiss(files: Files, kind: str, dial: int) -> Any:
    import faiss
    from fastapi import FastAPI
    from fastapi.responses import JSONResponse
    from pydantic import BaseModel

    class Search(BaseModel):
        vectors: list[list[float]]
        n: int = N

    faiss.omp_set_num_threads(1)  # the framework's threads are the parallelism
    index, app = opened(files, kind, dial), FastAPI()

    @app.post("/v1/search")
    def search(body: Search) -> JSONResponse:
        found = index.search(np.array(body.vectors, np.float32), body.n)
        return JSONResponse({"queries": [
            [{"row": row, "similarity": score} for score, row in zip(*one)]
            for one in zip(*(part.tolist() for part in found))
        ]})  # fmt: skip

    return app


def opened(files: Files, kind: str, dial: int) -> Any:
    import faiss

    return dialled(faiss.read_index(str(files.index(kind))), kind, dial)


def dialled(index: Any, kind: str, dial: int) -> Any:
    if kind == "IVF":
        index.nprobe = dial
    if kind == "HNSW":
        index.hnsw.efSearch = dial
    return index


def run_service(files: Files, kind: str, dial: int) -> None:
    from nearkin.serve.server import bind, serve

    app = serve_nearkin(files) if kind == "nearkin" else serve_faiss(files, kind, dial)
    bound = bind("127.0.0.1", 0)
    serve(app, bound, lambda: print(bound.getsockname()[1], flush=True))


# ---- load


async def client(port: int, requests: list[bytes], first: int, end: float) -> list[Any]:
    """Ask one question after the other; times of the answers, or None for an error."""
    times: list[Any] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        began = time.perf_counter()
        writer.write(requests[(first + len(times)) % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        good = head.startswith(b"HTTP/1.1 200") and b'"similarity"' in body
        times.append(time.perf_counter() - began if good else None)
    writer.close()
    return times


def cpu_seconds(pid: int) -> float:
    import psutil

    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


async def load(port: int, requests: list[bytes], clients: int, seconds: float) -> dict[str, float]:
    warm_up = time.perf_counter() + 1
    first = await asyncio.gather(*(client(port, requests, 7 * i, warm_up) for i in range(clients)))
    began = time.perf_counter()
    runs = (client(port, requests, 7 * i, began + seconds) for i in range(clients))
    times = [t for run in await asyncio.gather(*runs) for t in run]
    took = time.perf_counter() - began
    good = np.array([t for t in times if t is not None])
    p50, p99 = np.percentile(good, [50, 99]) * 1e3
    asked = len(times) + sum(map(len, first))
    return {"requests_s": len(good) / took, "p50_ms": p50, "p99_ms": p99, "asked": asked,
            "errors": len(times) - len(good)}  # fmt: skip


def as_request(vector: np.ndarray) -> bytes:
    question = {"vectors": [[round(float(v), 6) for v in vector]], "n": N}
    body = json.dumps(question).encode()
    head = ("POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")  # fmt: skip
    return head.encode() + body


def measured(options: argparse.Namespace, kind: str, dial: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--work", str(options.work), "--rows", str(options.rows),
               "--dims", str(options.dims), "--service", kind, "--dial", str(dial)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the service {kind} did not start")
        files = Files(options.work, options.rows, options.dims)
        requests = [as_request(vector) for vector in files.queries()[:ASKED]]
        before = cpu_seconds(process.pid)
        result = asyncio.run(load(int(line), requests, options.clients, options.seconds))
        asked = result.pop("asked")
        return result | {"cpu_ms": 1e3 * (cpu_seconds(process.pid) - before) / asked}
    finally:
        process.terminate()
        process.wait()


# ---- recall


def exact(files: Files) -> np.ndarray:
    from nearkin.neighbors import nearest

    def make(path: Path) -> None:
        found = nearest(files.vectors(), N, queries=files.queries()[ASKED:], index="exact")[1]
        with open(path, "wb") as file:
            np.save(file, found)

    return np.load(files.get("nearest.npy", make))


def recall(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / N for a, b in zip(found, true)]))


def nearkin_recall(files: Files) -> float:
    import nearkin
    from nearkin.serve.side import Side

    side = Side(nearkin.load(files.model()))
    near = side.near_vectors(files.queries()[ASKED:])
    return recall(side.without_own(near, None).indices, exact(files))


def services(files: Files, beside: list[str] | None) -> Iterator[tuple[str, int, float]]:
    """What to measure: kind, dial, recall."""
    reached = nearkin_recall(files)
    yield "nearkin", 0, reached
    for kind in beside or (["Flat"] if files.rows <= EXACT_ROWS else ["IVF", "HNSW"]):
        yield kind, *_as_good(files, kind, reached)


def _as_good(files: Files, kind: str, reached: float) -> tuple[int, float]:
    """The smallest dial that reaches a recall, and what it has; the index is gone afterwards."""
    index, found = opened(files, kind, DIALS[0]), 0.0
    for dial in DIALS:
        dialled(index, kind, dial)
        found = recall(index.search(files.queries()[ASKED:], N)[1], exact(files))
        if found >= reached - 0.005 or kind == "Flat":
            break
    return dial, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dims", type=int, default=512)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--beside", nargs="+", choices=["Flat", "IVF", "HNSW"])
    parser.add_argument("--service", help=argparse.SUPPRESS)
    parser.add_argument("--dial", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    files = Files(options.work, options.rows, options.dims)
    if options.service:
        run_service(files, options.service, options.dial)
        return
    print(machine.facts())
    print(f"{options.rows:,} × {options.dims}, {options.clients} clients, {options.seconds:g} s\n")
    print(HEAD)
    own = 0.0
    for kind, dial, found in services(files, options.beside):
        result = measured(options, kind, dial)
        own = own or result["p50_ms"]
        name = {"Flat": "IndexFlatIP", "IVF": f"IVF-Flat, {dial} probes",
                "HNSW": f"HNSW32, efSearch {dial}"}.get(kind, kind)  # fmt: skip
        cells = [name, f"{found:.3f}", f"{result['requests_s']:.0f}", f"{result['p50_ms']:.1f}",
                 f"{result['p99_ms']:.1f}", f"{result['errors']:.0f}", f"{result['cpu_ms']:.2f}",
                 f"{own / result['p50_ms']:.2f}"]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
