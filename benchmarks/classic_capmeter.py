"""What `classic.py speed` runs: a program that scores a file of captions with capmeter, as a user would write it.

python benchmarks/classic_capmeter.py FILE METRICS
"""

import json
import sys

import capmeter

if __name__ == "__main__":
    path, metrics = sys.argv[1:]
    results = capmeter.score(capmeter.load(path), metrics)
    print("\n" + json.dumps({name: results[name].items.array.tolist() for name in metrics.split(",")}))
