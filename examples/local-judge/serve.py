"""Serves a GGUF model with llama.cpp's OpenAI-compatible server on the loopback address.

python serve.py MODEL.gguf [--port 8099] [--context 8192] [--threads N]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Starts the server; it runs until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--context", type=int, default=8192, help="tokens of prompt and answer together")
    parser.add_argument("--chat-format", default="", help="such as gemma or chatml, if the file names none")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    options = parser.parse_args()
    if not options.model.is_file():
        parser.error(f"{options.model} is not a file; expected a model in GGUF form")
    try:
        from llama_cpp.server.__main__ import main as serve
    except ImportError:
        parser.error("llama-cpp-python is not installed: pip install 'llama-cpp-python[server]'")
    words = ["--model", str(options.model), "--host", "127.0.0.1", "--port", str(options.port)]
    words += ["--n_ctx", str(options.context), "--model_alias", "local"]
    words += ["--chat_format", options.chat_format] if options.chat_format else []
    if options.threads:
        words += ["--n_threads", str(options.threads), "--n_threads_batch", str(options.threads)]
    sys.argv[1:] = words
    serve()


if __name__ == "__main__":
    main()
