"""Export and the server: what is refused by its name, and what a request cannot do."""

import http.client
import socket

import pytest
import torch
from torch import nn

from kernels.serving import Batches, Exported, Input, Refused, export, load, read, serve
from kernels.systems.serving import GOOD, ask, running, saved
from kernels.systems.serving import Tagger as Model


class Mixes(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Listed(nn.Module):
    def forward(self, x):
        return [x]


X = torch.randn(2, 4)


@pytest.mark.parametrize(
    ("error", "said", "call"),
    [
        (TypeError, "^model: got builtin", lambda at: export(abs, (X,), at)),
        (ValueError, "^model: it is in training", lambda at: export(nn.Linear(4, 4), (X,), at)),
        (ValueError, "^max_batch: got 1", lambda at: export(nn.ReLU().eval(), (X,), at, max_batch=1)),
        (ValueError, "^path: got", lambda at: export(nn.ReLU().eval(), (X,), at.with_suffix(".pt"))),
        (TypeError, "^example: got float64 for input", lambda at: export(nn.ReLU().eval(), (X.double(),), at)),
        (ValueError, "^values: got none for tokens", lambda at: export(Model().eval(), (X.long(), X), at)),
        (ArithmeticError, "^a row alone, beside", lambda at: export(Mixes().eval(), (X,), at)),
        (ValueError, "^model: expected it to return one", lambda at: export(Listed().eval(), (X,), at)),
        (ValueError, "^path: got .* expected a file", lambda at: load(at)),
        (ValueError, "^path: got .* expected a file", lambda at: serve(at, port=0)),
        (ValueError, "^seconds: got 0", lambda at: serve(at, seconds=0)),
    ],
)
def test_what_cannot_be_exported_or_served_is_named(tmp_path, error, said, call):
    with pytest.raises(error, match=said):
        call(tmp_path / "model.pt2")


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "model.pt2").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is no file that kernels.serving.export wrote"):
        load(tmp_path / "model.pt2")


def test_a_saved_model_is_the_same(tmp_path):
    model, content = saved()
    (tmp_path / "model.pt2").write_bytes(content)
    again = load(tmp_path / "model.pt2")
    assert again.inputs[0] == Input("tokens", "int64", ((1, 4), (1, 12)), (0, 8)) and again.max_batch == 4
    tokens, weights = read(b'{"tokens": [[1, 2]], "weights": [[1, 2]]}', again.inputs)
    torch.testing.assert_close(again.model(tokens, weights), model(tokens, weights))


def test_a_request_cannot_end_the_server():
    with running(serve, seconds=0.3) as port:
        for sent in (b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b""):
            socket.create_connection(("127.0.0.1", port)).sendall(sent)  # and goes
        assert ask(port, GOOD, kind="text/plain")[0] == 415
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.putrequest("POST", "/")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "9")
        connection.endheaders(b"{")  # and no more comes
        assert connection.getresponse().status == 408
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        for method, path, status in (("GET", "/", 200), ("GET", "/more", 404), ("PUT", "/", 501)):
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
        assert ask(port, GOOD)[0] == 200


def test_a_model_that_fails_or_takes_long_answers_its_own_requests_alone():
    import time

    def model(x):
        time.sleep(0.3 if x[0, 0] > 1 else 0)
        return x / x.numel() if x[0, 0] >= 0 else x @ x

    batches = Batches(Exported(model, (Input("x", "float32", ((1, 4), (2, 2))),)), wait_ms=0)
    with pytest.raises(RuntimeError):
        batches.ask((torch.tensor([[-1.0, 0]]),), 5)
    with pytest.raises(Refused, match=r"^there is no answer within 0\.05 seconds") as error:
        batches.ask((torch.tensor([[2.0, 0]]),), 0.05)
    assert error.value.status == 503
    assert batches.ask((torch.tensor([[1.0, 0]]),), 5).tolist() == [[0.5, 0]]
