"""GPST: its induced trees and its parts on generated English, and measures of models of prose."""

import examples.one_thread  # noqa: F401
