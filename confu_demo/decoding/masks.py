"""Who may see whom in one verify forward: attention masks of draft trees.

Pure functions of tensors; knows no model and no cache. True means that the row may attend to the
key. Rows and keys of a verify forward are ``[tree | con]`` after P cached keys; soft prompts are
side keys, switched on for the [con] rows alone by the engine, and so appear in no mask.

Shape letters: N tree nodes, M contemplate tokens, P past.
"""

from __future__ import annotations

import torch
from torch import Tensor


def ancestor_mask(parents: Tensor, max_depth: int | None = None) -> Tensor:
    """Bool[N, N]: row i sees its ancestors and itself.

    ``parents`` Long[N], parents before children, -1 for the root; ``max_depth`` bounds the depth
    of the deepest node (None: N - 1). For parents (-1, 0, 0, 1), that is the tree
    ``0 -> 1 -> 3`` and ``0 -> 2``::

              0 1 2 3
        0     1 0 0 0
        1     1 1 0 0
        2     1 0 1 0
        3     1 1 0 1

    Works on the device without a copy to the host: (I + parent matrix)^(2^t) reaches every
    ancestor up to 2^t levels above.
    """
    num_nodes = parents.shape[0]
    reach = torch.eye(num_nodes, device=parents.device)
    if num_nodes > 1:
        reach[1:].scatter_(1, parents[1:, None], 1.0)
        reach[1:].diagonal(1).fill_(1.0)
    depth = num_nodes - 1 if max_depth is None else max_depth
    covered = 1
    while covered < depth:
        reach = (reach @ reach).clamp_(max=1.0)
        covered *= 2
    return reach > 0


def verify_mask(ancestors: Tensor, past: int, con_nodes: Tensor | None = None) -> Tensor:
    """Bool[N + M, P + N + M]: the mask of one verify forward.

    ``ancestors`` Bool[N, N]; ``con_nodes`` Long[M]: the node after which each contemplate token
    stands (None: no contemplate tokens). A tree row sees the past, its ancestors and itself. A
    [con] row sees the past, the ancestors of its node, that node and itself; nobody else sees
    it. For parents (-1, 0, 0, 1), two past tokens and a [con] after every node::

                 past  tree     con
                 a b   0 1 2 3  0 1 2 3
        tree 0   1 1   1 0 0 0  0 0 0 0
        tree 1   1 1   1 1 0 0  0 0 0 0
        tree 2   1 1   1 0 1 0  0 0 0 0
        tree 3   1 1   1 1 0 1  0 0 0 0
        con 0    1 1   1 0 0 0  1 0 0 0
        con 1    1 1   1 1 0 0  0 1 0 0
        con 2    1 1   1 0 1 0  0 0 1 0
        con 3    1 1   1 1 0 1  0 0 0 1
    """
    num_nodes = ancestors.shape[0]
    num_con = 0 if con_nodes is None else con_nodes.shape[0]
    mask = ancestors.new_ones(num_nodes + num_con, past + num_nodes + num_con)
    block = mask[:, past:]
    block[:num_nodes, :num_nodes] = ancestors
    if con_nodes is not None:
        block[:num_nodes, num_nodes:] = False
        block[num_nodes:, :num_nodes] = ancestors.index_select(0, con_nodes)
        block[num_nodes:, num_nodes:].fill_(False).fill_diagonal_(True)
    return mask
