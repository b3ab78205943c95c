"""Changes: Services and their pods change while clients of every kind send to them."""

TITLE = "Changes of Services and pods"
ORDER = 55
