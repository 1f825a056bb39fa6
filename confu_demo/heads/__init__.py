"""Trained parts that sit on a frozen target model: the EAGLE-3 head and ConFu's additions."""
