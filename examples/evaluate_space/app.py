"""The page of the space: a form for captions and references."""

import evaluate
from evaluate.utils import launch_gradio_widget

launch_gradio_widget(evaluate.load("caption_scores.py"))
