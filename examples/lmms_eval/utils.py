"""Caption tasks of lmms-eval that are scored by capmeter: what the YAML files beside this one name.

lmms-eval loads this file anew for each function; `CaptionTask` is cheap, and scores each set of captions once.
"""

from typing import Any

from capmeter.integrations.lmms_eval import COCO, CaptionTask


def doc_to_image(doc: dict[str, Any]) -> list[Any]:
    """The picture, as `datasets` decodes it."""
    return [doc["image"].convert("RGB")]


coco = CaptionTask("coco", image_id="question_id", references="answer")
coco_doc_to_text, coco_process_results, coco_aggregate = coco.doc_to_text, coco.process_results, coco.aggregate

# each domain is scored as a set of its own, with its own document frequencies
nocaps = CaptionTask(
    "nocaps",
    image_id="image_id",
    references="annotations_captions",
    group="image_domain",
    groups=("in-domain", "near-domain", "out-domain"),
)
nocaps_doc_to_text, nocaps_process_results = nocaps.doc_to_text, nocaps.process_results
nocaps_aggregate = nocaps.aggregate

flickr30k = CaptionTask("flickr30k", image_id="img_id", references="caption")
flickr30k_doc_to_text, flickr30k_process_results = flickr30k.doc_to_text, flickr30k.process_results
flickr30k_aggregate = flickr30k.aggregate

textcaps = CaptionTask("textcaps", image_id="image_id", references="caption_str")
textcaps_doc_to_text, textcaps_process_results = textcaps.doc_to_text, textcaps.process_results
textcaps_aggregate = textcaps.aggregate

vatex = CaptionTask(
    "vatex", image_id="videoID", references="enCap", prompt="Provide a brief single-sentence caption for the video."
)
vatex_doc_to_text, vatex_process_results, vatex_aggregate = vatex.doc_to_text, vatex.process_results, vatex.aggregate


def doc_to_video(doc: dict[str, Any]) -> list[str]:
    """The file of the clip, in the folder that VATEX_VIDEOS names."""
    import os
    from pathlib import Path

    return [str(Path(os.environ["VATEX_VIDEOS"]) / f"{doc['videoID']}.mp4")]


def doc_to_encoded_image(doc: dict[str, Any]) -> list[Any]:
    """The picture, from the bytes of its file."""
    import io

    from PIL import Image

    return [Image.open(io.BytesIO(doc["binary"])).convert("RGB")]


def detailed_references(doc: dict[str, Any]) -> list[str]:
    """The long captions by three models that DetailCaps gives for each picture."""
    return [doc["GT_Caption_GPT4O"], doc["GT_Caption_GPT4V"], doc["GT_Caption_Gemini15Pro"]]


detailcaps = CaptionTask(
    "detailcaps",
    {name: name for name in COCO} | {"CAPTURE": "capture"},  # needs capmeter[neural]
    image_id="image",
    references=detailed_references,
    prompt="Describe this image in detail.",
)
detailcaps_doc_to_text, detailcaps_process_results = detailcaps.doc_to_text, detailcaps.process_results
detailcaps_aggregate = detailcaps.aggregate


# the objects of each picture, by the names of COCO's categories, stand in place of references
chair = CaptionTask(
    "coco_cap_chair",
    {"i": "chair(variant=lmms-eval,references=true)", "s": "chair(variant=lmms-eval,references=true,level=caption)"},
    image_id="question_id",
    references="gt_object",
    parts={"recall": ("i", "recall")},
    prompt="Describe this image in detail.",
)
chair_doc_to_text, chair_process_results, chair_aggregate = chair.doc_to_text, chair.process_results, chair.aggregate
