"""How the maker of faithful scene graphs is trained and measured (`capmeter train factual`)."""
