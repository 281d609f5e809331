"""Who may ask: Host, Origin, Sec-Fetch-Site and the token."""

import http.client

import pytest

from nearkin.serve.errors import Refused
from nearkin.serve.guard import Guard, check_reach, is_loopback, read_token
from nearkin.serve.reload import Holder
from serving import engine_of, living

TOKEN = "0123456789abcdef0123"


def status(live, headers, path="/v1/model"):
    """With headers that clients would not let us set."""
    connection = http.client.HTTPConnection("127.0.0.1", live.socket.getsockname()[1])
    connection.putrequest("GET", path, skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def own(live, **more):
    return {"Host": live.url.removeprefix("http://")} | {
        k.replace("_", "-"): v for k, v in more.items()
    }


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "10.0.0.1",
        "[::2]",
        "127.0.0.1@x",
    ],
)
def test_other_hosts_are_not_served_on_loopback(live, host):
    for path in ("/", "/health", "/v1/model", "/static/page.js", "/metrics", "/no"):
        assert status(live, {"Host": host}, path) == 421


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "localhost."]
)
def test_names_of_this_machine_are_served(live, host):
    assert status(live, {"Host": host}) == 200


def test_pages_of_other_sites_are_refused(live):
    assert status(live, own(live)) == 200
    assert status(live, own(live, Origin=live.url)) == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", live.url + ".evil.example",
                   "file://", "http://localhost:9"):  # fmt: skip
        assert status(live, own(live, Origin=origin)) == 403, origin
    for site in ("cross-site", "same-site"):
        assert status(live, own(live, Sec_Fetch_Site=site)) == 403
        assert status(live, own(live, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors"), "/") == 403
    for site in ("same-origin", "none"):
        assert status(live, own(live, Sec_Fetch_Site=site)) == 200
    followed = own(live, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert status(live, followed, "/") == 200
    assert status(live, followed, "/v1/model") == 403


def test_every_response_tells_browsers_to_be_strict(live):
    for path in ("/", "/v1/model", "/nothing", "/static/page.js"):
        headers = live.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers or "uvicorn" in headers["server"]  # the command hides it


@pytest.mark.parametrize(
    "path",
    [
        "/static/../engine.py",
        "/static/%2e%2e/engine.py",
        "/static/",
        "/static/..%2f..%2fcli/app.py",
        "//etc/passwd",
        "/static/x.css",
    ],
)
def test_nothing_else_of_the_disk_is_served(live, path):
    assert status(live, own(live), path) == 404


def test_a_token_is_asked_for(model_file):
    holder = Holder(lambda: engine_of(model_file), model_file)
    with living(holder, guard=Guard(token=TOKEN)) as live:
        for path in ("/", "/health", "/static/page.js", "/docs"):
            assert live.get(path).status_code == 200
        wrong = ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}",
                 "Bearer \xff\xfe", f"Bearer {TOKEN} {TOKEN}"]  # fmt: skip
        for path in ("/v1/model", "/v1/rows/0", "/metrics", "/openapi.json", "/v1/suspects.csv"):
            assert status(live, own(live), path) == 401
            for value in wrong:
                assert status(live, own(live, Authorization=value), path) == 401
            assert status(live, own(live, Authorization=f"Bearer {TOKEN}"), path) == 200
        assert live.post("/v1/search", rows=[0]).status_code == 401


def test_a_service_for_other_machines_knows_addresses_and_given_names():
    guard = Guard("0.0.0.0", ("search.example",), TOKEN)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    for host in ("192.168.1.5:8000", "[fe80::1]:8000", "search.example", "localhost:8000"):
        guard.check("/v1/model", {"host": host} | bearer)
    for host in ("evil.example", "search.example.evil", ""):
        with pytest.raises(Refused):
            guard.check("/v1/model", {"host": host} | bearer)
    assert TOKEN not in repr(guard)


def test_other_machines_need_a_token_unless_told_otherwise():
    check_reach("127.0.0.1", None, False)
    check_reach("0.0.0.0", TOKEN, False)
    check_reach("0.0.0.0", None, True)
    for host in ("0.0.0.0", "::", "192.168.1.5", "search.example"):
        with pytest.raises(ValueError, match="--token-file"):
            check_reach(host, None, False)
    assert is_loopback("127.0.0.2")


def test_tokens_come_from_a_file_or_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert read_token(file, None) == TOKEN
    assert read_token(file, "another-token-of-the-environment") == TOKEN
    assert read_token(None, TOKEN) == TOKEN
    assert read_token(None, None) is None
    for text in ("", "short", "ünïcödé-tökèn-öf-lëngth"):
        file.write_text(text)
        with pytest.raises(ValueError, match="openssl"):
            read_token(file, None)
    with pytest.raises(FileNotFoundError):
        read_token(tmp_path / "none", None)
