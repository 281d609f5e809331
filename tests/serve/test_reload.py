"""A new model in place of the old one, while clients ask."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import httpx

from nearkin.serve.reload import Holder
from serving import digits, engine_of, fitted, living

CLIENTS = 6


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_new_model_is_taken_without_dropping_a_request(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted(0, 200).save(path)
    query, stop, failures, versions = digits(900, 901)[0].tolist(), threading.Event(), [], []

    def ask(url):
        seen = []
        with httpx.Client(base_url=url, timeout=60) as client:
            while not stop.is_set():
                answer = client.post("/v1/search", json={"vectors": query, "n": 3})
                if answer.status_code != 200:
                    failures.append(answer.text)
                    return
                seen.append(answer.json()["model"])
        versions.append(seen)

    with living(Holder(lambda: engine_of(path), path), look_seconds=0.05) as live:
        with ThreadPoolExecutor(CLIENTS) as clients:
            asked = [clients.submit(ask, live.url) for _ in range(CLIENTS)]
            known = {live.state.engine.version}
            for stored in (250, 220):
                time.sleep(0.2)
                fitted(0, stored).save(path)
                wait_for(lambda: live.state.engine.version not in known)
                assert live.get("/v1/model").json()["rows"] == stored
                known.add(live.state.engine.version)
            time.sleep(0.2)
            stop.set()
            for one in asked:
                one.result()
        assert 'nearkin_reloads_total{result="taken"} 2' in live.get("/metrics").text
    assert not failures
    assert set().union(*versions) == known
    for seen in versions:  # never back to an older model
        assert [v for i, v in enumerate(seen) if i == 0 or v != seen[i - 1]] == sorted(set(seen))


def test_the_old_model_is_let_go(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted(0, 200).save(path)
    holder = Holder(lambda: engine_of(path), path)
    with living(holder, look_seconds=0.05) as live:
        assert gc.get_freeze_count() > 10_000  # what stays is not looked through again and again
        live.ok("/v1/search", rows=[0])
        live.get("/v1/confusions"), live.get("/v1/map")
        old = [weakref.ref(one) for one in (holder.engine, holder.engine.model)]
        fitted(0, 210).save(path)
        wait_for(lambda: live.state.engine.n_rows == 210)
        live.ok("/v1/search", rows=[0])
        wait_for(lambda: not any(one() for one in old))
    assert gc.get_freeze_count() == 0


def test_a_damaged_model_is_refused_and_the_old_one_goes_on(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted(0, 200).save(path)
    whole = path.read_bytes()
    with living(Holder(lambda: engine_of(path), path), look_seconds=0.05) as live:
        version = live.state.engine.version
        damaged = tmp_path / "damaged"
        damaged.write_bytes(whole[: len(whole) // 2])
        damaged.replace(path)
        wait_for(lambda: live.get("/health").json()["reload_error"])
        assert live.ok("/v1/search", rows=[0])["model"] == version
        path.unlink()
        time.sleep(0.2)
        assert live.ok("/v1/search", rows=[0])["model"] == version
        fitted(0, 210).save(path)
        wait_for(lambda: live.state.engine.version != version)
        assert live.get("/health").json()["reload_error"] is None
        text = live.get("/metrics").text
    assert 'nearkin_reloads_total{result="refused"} 1' in text
    assert "nearkin_rows 210\n" in text
