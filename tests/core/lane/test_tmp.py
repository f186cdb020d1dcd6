import pytest
from windlass import App
def test_order(app):
    ran=[]
    @app.task
    def note(n: int): ran.append(n)
    for n in range(20): note.using(lane="a" if n%2 else "b").enqueue(n)
    note.enqueue(99)
    app.drain()
    assert sorted(ran)==[*range(20),99]
    assert [n for n in ran if n%2 and n<99]==list(range(1,20,2))
    assert [n for n in ran if n%2==0]==list(range(0,20,2))
