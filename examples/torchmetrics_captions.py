"""
Caption metrics in torchmetrics
===============================

Image captions are evaluated with BLEU, ROUGE-L, METEOR and CIDEr-D. ``CaptionMetric`` computes them with the interface
of ``torchmetrics.Metric``: batches are added with ``update``, ``compute`` gives the scores of the whole set, in one
process or in many. The numbers are those of the standard code (pycocoevalcap), without Java.
"""

# %%
# Each image has one caption by the model, and several by people.

from typing import Any

from capmeter.integrations.torchmetrics import CaptionMetric

BATCHES: list[dict[str, Any]] = [
    {
        "ids": [7, 9],
        "preds": ["a brown dog runs over the grass", "two cats sleep on a sofa"],
        "target": [
            ["a dog is running on the grass", "the brown dog runs", "a dog running across a lawn"],
            ["two cats sleeping on the sofa", "cats asleep on a red couch"],
        ],
    },
    {"ids": [12], "preds": ["an old man waits for a bus"], "target": [["an old man at a bus stop"]]},
]

# %%
# Captions are added batch by batch, under the ids of their images: a caption that a padded sampler repeats counts once.

metric = CaptionMetric("bleu-1,rouge-l,cider-d")
for batch in BATCHES:
    metric.update(batch["preds"], batch["target"], ids=batch["ids"])

# %%
# BLEU and CIDEr-D are scores of a set, not means over batches: compute them at the end.

for name, score in metric.compute().items():
    print(f"{name}: {score:.4f}")

# %%
# The scores of single captions, and the 95 % intervals.

assert metric.results is not None
print(metric.results["rouge-l"].items["7"])
print(metric.results.intervals()["rouge-l"])
