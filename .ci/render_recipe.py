"""Renders the conda recipe as rattler-build would; ends with an error if it is not valid.

python .ci/render_recipe.py conda/recipe.yaml
"""

from __future__ import annotations

import sys

from rattler_build import RenderConfig, Stage0Recipe, VariantConfig

for rendered in Stage0Recipe.from_file(sys.argv[1]).render(VariantConfig(), RenderConfig()):
    recipe = rendered.recipe
    print(recipe.package.name, recipe.package.version, f"{len(recipe.requirements.run)} run dependencies")
