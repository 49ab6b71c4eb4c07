"""What runs in an embedded broker's own process (or thread), at the other end of the control socket.

The node, its logs and its shell are the ones of `headrace serve`. Around them are ports that a test can bend: clocks
that can be moved, a disk that can fail, and requests that can meet a fault before the node sees them.
"""
