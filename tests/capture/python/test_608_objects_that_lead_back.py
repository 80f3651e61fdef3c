"""Objects that lead back to themselves are made once, whatever comes first."""

from collections import OrderedDict, defaultdict, deque

import pytest

import dynajit as dj


class Node:
    def __init__(self, items=None):
        self.items = items


class Items(list):
    pass


class Pair(tuple):
    pass


class Name(str):
    pass


class NoModule(type):
    @property
    def __module__(cls):
        raise RuntimeError("nobody may ask")


class Unnamed(metaclass=NoModule):
    pass


def list_before_the_object_in_it(n):
    if n < 0:
        items = node = None
    node = Node()
    items = [node]
    node.items = items
    dj.graph_break()
    return items is node.items and items[0] is node


def list_and_object_given_away(n, out):
    node = Node()
    items = [node]
    node.items = items
    out.append(items)
    out.append(node)
    dj.graph_break()
    return out[0] is items and node.items is items and out[1] is items[0]


def dict_before_the_object_in_it(n):
    if n < 0:
        table = node = None
    node = Node()
    table = {"node": node, "n": n}
    node.items = table
    dj.graph_break()
    return table is node.items and table["node"] is node


def tuple_before_the_object_in_it(n):
    if n < 0:
        pair = node = None
    node = Node()
    pair = (node, n)
    node.items = pair
    dj.graph_break()
    return pair is node.items


def deque_of_an_object(n):
    items = deque(range(n))
    items[n // 2] = Node(items)
    dj.graph_break()
    return items[n // 2].items is items


def deque_behind_an_object(n):
    node = Node()
    items = deque([node])
    node.items = items
    dj.graph_break()
    return node.items is items and items[0] is node


def ordered_dict_of_an_object(n):
    table = OrderedDict(a=n)
    table["node"] = Node(table)
    dj.graph_break()
    return table["node"].items is table


def default_dict_of_an_object(n):
    table = defaultdict(list)
    table["node"].append(Node(table))
    dj.graph_break()
    return table["node"][0].items is table


def subclass_of_list(n):
    items = Items()
    items.append(Node(items))
    dj.graph_break()
    return items[0].items is items


def attribute_of_a_tuple_in_itself(n):
    node = Node()
    pair = Pair((node, n))
    node.items = pair
    dj.graph_break()
    return node.items is pair and pair[0] is node


def attribute_of_a_text_in_itself(n):
    name = Name("name")
    name.owner = Node(name)
    dj.graph_break()
    return name.owner.items is name


def tree_with_parents(n):
    root = Node([])
    for _ in range(n):
        child = Node([])
        child.parent = root
        root.items.append(child)
    first = root.items[0]
    dj.graph_break()
    return all(child.parent is root for child in root.items) and first is root.items[0]


def function_in_its_own_cell(n):
    def count(k):
        return 0 if k == 0 else 1 + count(k - 1)

    node = Node(count)
    count.node = node
    dj.graph_break()
    return count(n) == n and node.items is count and count.node is node


def instance_of_a_class_without_a_module(n):
    made = Unnamed()
    made.itself = made
    dj.graph_break()
    return made.itself is made


FUNCTIONS = [
    list_before_the_object_in_it, dict_before_the_object_in_it, tuple_before_the_object_in_it,
    deque_of_an_object, deque_behind_an_object, ordered_dict_of_an_object,
    default_dict_of_an_object, subclass_of_list, attribute_of_a_tuple_in_itself,
    attribute_of_a_text_in_itself, tree_with_parents, function_in_its_own_cell,
    instance_of_a_class_without_a_module,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_each_is_one_object_after_a_break(compiler, function):
    assert function(4)
    compiled = compiler.compile(function)
    assert compiled(4)
    assert compiled(4)


def test_each_is_one_object_for_others_too(compiler):
    compiled = compiler.compile(list_and_object_given_away)
    for _ in range(2):
        assert compiled(4, [])


def returned(n):
    node = Node()
    items = [node]
    node.items = items
    return items, node, deque([items])


def test_each_is_one_object_in_a_result(compiler):
    compiled = compiler.compile(returned)
    for _ in range(2):
        items, node, queue = compiled(1)
        assert items[0] is node
        assert node.items is items
        assert queue[0] is items
