"""What is known of one picture: its pixels, features and regions."""
