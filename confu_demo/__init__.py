"""confu_demo: a race of speculative decoding methods, visible and measured.

Implements ConFu (arXiv 2603.08899, token level), its baseline EAGLE-3, and ConfSpec
(arXiv 2602.18447, step level) on one lean engine; every decoder is a generator of the
events of :mod:`confu_demo.trace`, and every view, number and recording reads only those.
"""

__version__ = "0.1.0"
