"""How fast judges are asked, beside the ideal time: questions / concurrency x the server's latency.

    python benchmarks/judges.py [--captions 200] [--questions 20] [--concurrency 32] [--latency 0.3]

A server on the loopback address, in a process of its own, answers each question after the latency. Printed are the
time of a first run, its ratio to the ideal, the time of a second run, which asks nothing, and the processor time and
peak memory of each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_COMPLETION = json.dumps(
    {
        "choices": [{"message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 1},
    }
).encode()


def serve(latency: float) -> None:
    """Serves until its parent closes standard input; prints the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(latency)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(_COMPLETION)))
            self.end_headers()
            self.wfile.write(_COMPLETION)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing is logged."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 512
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


def score(folder: Path, port: int, concurrency: int) -> None:
    """Scores once; prints seconds, processor seconds and peak memory in megabytes."""
    import capmeter

    captions = capmeter.load(folder / "captions.jsonl", on_missing="keep")
    address, task, questions = f"http://127.0.0.1:{port}/v1", folder / "quiz.yaml", folder / "questions.jsonl"
    task.write_text("prompt: '{candidate} {question} {choices}'\nask: question\nread: {choice: true}\n")
    metric = f'judge(model=m,endpoint="{address}",task="{task}",questions="{questions}")'
    settings = capmeter.Settings(judging=capmeter.JudgeLimits(concurrency=concurrency))
    import openai  # noqa: F401  loading it takes about a second, which is not asking

    start, processor = time.perf_counter(), time.process_time()
    results = capmeter.score(captions, [metric], settings=settings)[metric]
    seconds = time.perf_counter() - start
    assert results.parts["scored_share"] == 1.0
    print(
        json.dumps(
            [seconds, time.process_time() - processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
        )
    )


def main() -> None:
    """Runs server and clients as processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=200)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--score", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.latency)
        return
    if options.score:
        score(Path(options.score[0]), int(options.score[1]), options.concurrency)
        return
    ideal = options.captions * options.questions / options.concurrency * options.latency
    command = [sys.executable, __file__, "--latency", str(options.latency), "--concurrency", str(options.concurrency)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [
            {"image_id": str(k), "candidate": f"caption {k} " + "of a dog in a park " * 20}
            for k in range(options.captions)
        ]
        questions = [
            {"question": f"How many? ({k})", "choices": ["1", "2", "3"], "answer": "2"}
            for k in range(options.questions)
        ]
        (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "questions.jsonl").write_text(
            "".join(json.dumps({"image_id": str(k), "questions": questions}) + "\n" for k in range(options.captions))
        )
        environment = os.environ | {"CAPMETER_CACHE": str(folder / "cache")}
        server = subprocess.Popen([*command, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdin is not None and server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            print(f"{options.captions * options.questions:,} questions, ideal {ideal:.1f} s")
            for run in ("first", "second"):
                words = [*command, "--score", str(folder), port]
                output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
                seconds, processor, megabytes = json.loads(output)
                ratio = f", {seconds / ideal:.2f} x the ideal" if run == "first" else ""
                print(
                    f"{run} run: {seconds:.1f} s{ratio}, {processor:.1f} s of processor, peak memory {megabytes:.0f} MB"
                )
        finally:
            server.stdin.close()
            server.wait()


if __name__ == "__main__":
    main()
