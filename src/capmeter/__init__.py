"""capmeter measures image captions.

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["a dog runs on grass", "two cats sleep"],
...     references=[["a dog is running on the grass"], ["two cats are sleeping", "two cats sleep"]],
...     metrics=["bleu-1", "rouge-l"],
... )
>>> round(results["rouge-l"].score, 4), results["rouge-l"].items["1"]
(0.8236, 1.0)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names are listed in __init__.pyi
