"""Monitors: "tell me when" and "keep me posted" over many sites, as machines without IO."""
