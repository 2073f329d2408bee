"""Named, seeded transformations of captions: controlled degradations and negatives."""
