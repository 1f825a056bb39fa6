"""The web page. It reads events only; the engine reaches it through :class:`RaceRunner`."""
