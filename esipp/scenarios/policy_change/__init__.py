"""The policy change scenario: traffic policies change under traffic."""
