"""Machines of cloud providers, by SkyPilot: a tool of the user in an environment of its own."""
