"""Steps on large tables: of all rows, or of a batch, after which Adam may carry on the other rows."""

import torch
from _common import generator
from _objectives import sees_all

import unclump as uc


class BatchAdam:
    """`SphereAdam` on batches of different rows; unless it is lazy, the other rows go on by the momentum they have.

    Without a gradient a row stays on one great circle: its moments shrink, and their ratio says how far it goes. So a
    step changes a few numbers of every row, and the coordinates only of the rows in the batch, which are first brought
    to where they have got to. Points are those of `SphereAdam` with gradients of zero for the other rows, but for
    rounding; the coordinates of the whole table are not read and written at every step.
    """

    def __init__(self, table, lr, *, lazy):
        self.table, self.lr, self.lazy, self.count = table, lr, lazy, 0
        self.optimizer = uc.SphereAdam([table], lr=lr)
        # Of each row: the angle it has gone from its coordinates, and the length of its first moment there and now.
        self.angle, self.length_there, self.length = (torch.zeros_like(table.detach()[:, 0]) for _ in range(3))

    def points(self, rows):
        """These rows of the table after the steps so far."""
        table = self.table.detach()
        x = table.index_select(0, rows)  # index_select and index_copy_ take a fraction of the time of x[rows]
        if self.lazy or not self.count:
            return x
        moment = self.optimizer.state[self.table]["exp_avg"]
        angle, there, now = (of.index_select(0, rows)[:, None] for of in (self.angle, self.length_there, self.length))
        back = moment.index_select(0, rows).div_(torch.where(there > 0, there, 1))  # steps are against the moment
        cosine, sine = angle.cos(), angle.sin()
        moved = uc.project((cosine * x).addcmul_(sine, back, value=-1))
        table.index_copy_(0, rows, moved)
        moment.index_copy_(0, rows, back.mul_(cosine).addcmul_(sine, x).mul_(now))
        self.angle.index_fill_(0, rows, 0.0)
        self.length_there.index_copy_(0, rows, now[:, 0])
        return moved

    def step(self, rows, gradient):
        """A step with the gradient at `points(rows)`."""
        if self.lazy:
            pulled = (gradient != 0).any(dim=1)
            rows, gradient = rows[pulled], gradient[pulled]
        self.optimizer.step_rows(self.table, gradient, rows)
        self.count += 1
        if not self.lazy:
            self._carry_on(rows)

    def _carry_on(self, rows):
        """The step of all rows but these, which have taken it."""
        state, (group,) = self.optimizer.state[self.table], self.optimizer.param_groups
        second, betas = state["exp_avg_sq"][:, 0], group["betas"]
        first_share, second_share = (1 - beta**self.count for beta in betas)
        taken = second.index_select(0, rows)
        self.length *= betas[0]
        second *= betas[1]
        angle = self.length / (second / second_share).sqrt_().add_(group["eps"]) * (self.lr / first_share)
        self.angle += angle
        self.length *= angle.cos_()  # as `SphereAdam` projects the moment onto the new tangent space
        second.index_copy_(0, rows, taken)
        self.angle.index_fill_(0, rows, 0.0)
        now = torch.linalg.vector_norm(state["exp_avg"].index_select(0, rows), dim=1)
        self.length.index_copy_(0, rows, now)
        self.length_there.index_copy_(0, rows, now)
        state["steps"].fill_(self.count)


def steps_of(table, objective, made, *, lr, batch, seed, lazy=False):
    """A function that makes a step, and one that returns the points after the steps so far.

    `made` sees the whole table, or a batch of its rows, as the objective has it.
    """
    if sees_all(objective):
        optimizer = uc.SphereAdam([table], lr=lr)
        return lambda: optimizer.step_rows(table, made.value_and_gradient(table.detach())[1], None), table.detach
    optimizer, draw, every = BatchAdam(table, lr, lazy=lazy), generator(seed, 2), torch.arange(len(table))

    def step():
        rows = drawn(len(table), batch, draw)
        optimizer.step(rows, made.value_and_gradient(optimizer.points(rows))[1])

    return step, lambda: optimizer.points(every)


def steps_by_autograd(table, optimizer, objective, loss, *, batch, seed):
    """The same with another library's optimiser, and a function of points for the objective."""
    draw = generator(seed, 2)

    def step():
        optimizer.zero_grad()
        loss(table if sees_all(objective) else table[drawn(len(table), batch, draw)]).backward()
        optimizer.step()

    return step, table.detach


def drawn(n, batch, draw):
    return torch.randperm(n, generator=draw)[:batch]
