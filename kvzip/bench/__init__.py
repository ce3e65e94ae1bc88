"""Codecs compared on a dump: kvzip's levels and others, their speed, and the links on which each pays."""
