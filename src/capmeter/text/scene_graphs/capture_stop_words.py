"""CAPTURE's stop words: nouns that it does not count as objects (Dong et al. 2024; its code's list, Apache-2.0).

The 317 entries of the released list. Look-ups are case-sensitive and in lemmas, as in that code, so that some never
match.
"""

from __future__ import annotations

CAPTURE_STOP_WORDS = frozenset(
    word.replace("_", " ")
    for word in """
    accent action activity adventure aesthetic afternoon air ambiance angle anticipation appeal appearance
    architecture area arrangement art atmosfere atmosphere Atmosphäre atmosphère attention attire aura back backdrop
    background balance base beauty beauté bloom body_language border bottom boundary breakfast bustle camaraderie
    case celebration center chaos character charm city_life cityscape clothing coexistence collage color comfort
    community companionship component composition condition confidence connection content context contrast
    conversation countertop countryside court creativity culture curiosity darkness day decor decoration demeanor
    depth description design destination detail determination dining_experience direction display distance diversity
    ecosystem edge effect elegance element emotion enclosure end energy ensemble entrance environment era essence
    essential event everyday_life excitement expanse experience exploration expression exterior facade feature field
    figure flavor flight focus foreground form formation frame freedom front functionality game gaze glow grandeur
    group handle harmony height her heritage him history horizon hue hustle identity illustration image imagery
    imagination individual information infrastructure ingredient innocence intensity interaction interior
    interpretation intersection it item journey joy key knowledge landscape layer layout left life living_space
    location love marking marvel match material memory message mid-air middle modernity moment Moment mood motion
    movement music mystery name narrative natural natural_beauté nature Nature neighborhood network night nostalgia
    object operation order outdoor outdoors outline page palette pant passion pattern peak performance personality
    perspective photo photograph picture place placement play pleasure point pose position positioning posture power
    presence presentation promise purpose reality red reflection relaxation remote resilience rhythm right rim role
    routine row scale scene scenery section serenity setting shape short show side significance silhouette
    simplicity site skill snapshot solitude space spectacle spectator speed spirit spot stance step stillness story
    strap stride structure style subject surface surrounding surroundings symbolism tableau tall task team teamwork
    technology tension terrain text texture theme thrill time tip tone top topping touch track traffic tranquility
    travel treat turn uniform unity universe urban urban_life urban_setting vantage_point vastness vibe vibrancy
    view viewer viewpoint warmth weather white wild wilderness winter work workspace world
    """.split()  # noqa: SIM905
)
