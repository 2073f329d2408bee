"""Analyses of a single image: its pixels, features and regions."""

from capmeter.images.analyses import Contents as Contents
from capmeter.images.analyses import ContentTable as ContentTable
from capmeter.images.analyses import pictures as pictures
from capmeter.images.features import FeatureTable as FeatureTable
from capmeter.images.features import PictureFeatures as PictureFeatures
from capmeter.images.reading import MOST_PIXELS as MOST_PIXELS
from capmeter.images.reading import Picture as Picture
from capmeter.images.reading import content_hash as content_hash
from capmeter.images.reading import read_picture as read_picture
