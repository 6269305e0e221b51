"""One small file in each language, for the tests of scopes, symbols and imports.  Written for them; no real code."""

from __future__ import annotations

PYTHON = '''\
import os
from a import (
    b,
    c as d,
)

# about X
X = 1


# doc
@deco(
    1,
)
def f(
    a,
    b,
) -> int:
    # first
    if a:
        return 1
    else:
        return 2
    # trailing comment


class A(B):
    """Doc."""

    y: int = 3

    @property
    async def g(self): return 1

    def h(self):
        for i in x:
            with y:
                try:
                    pass
                except E:
                    pass
'''

TYPESCRIPT = """\
import { a, b } from "x";
export const C = 3;
/** doc */
export async function f(a: number): Promise<void> {
  if (a) {
    g();
  } else {
    h();
  }
}
export default class A extends B {
  private x = 1;
  @Input()
  foo(): void {
  }
  bar = async () => {
    return 1;
  };
}
export const arrow = (x: number) => {
  return x;
};
interface I {
  m(): void;
}
type T = { a: 1 };
enum E { A }
module.exports = {
  data() {
    return 1;
  },
  methods: {
    go: function () {
      x();
    },
  },
};
describe("thing", () => {
  it("works", async () => {
    expect(1);
  });
});
namespace N {
  export function q() {}
}
function over(a: string): void;
switch (x) {
  case 1: {
    break;
  }
  default:
    y();
}
const { p, q } = require("z");
"""

JAVASCRIPT = """\
import { a, b } from "x";
export const C = 3;
/** doc */
export async function f(a) {
  if (a) {
    g();
  } else {
    h();
  }
}
export default class A extends B {
  x = 1;
  foo() {
  }
  bar = async () => {
    return 1;
  };
}
export const arrow = (x) => {
  return x;
};
module.exports = {
  data() {
    return 1;
  },
  methods: {
    go: function () {
      x();
    },
  },
};
describe("thing", () => {
  it("works", async () => {
    expect(1);
  });
});
"""

GO = """\
package main

import (
	"fmt"
	x "y/z"
)

// T is
type T struct {
	A int
}

type I interface {
	M() error
}

const C = 1

var (
	a = 1
	b = 2
)

func F(a int) error {
	if a > 1 {
		return nil
	} else {
		x()
	}
	for i := range y {
	}
	switch a {
	case 1:
		foo()
	default:
	}
	t.Run("name", func(t *testing.T) {
		x()
	})
	return nil
}

func (t *T) M() {
}
"""

RUST = """\
use std::io;
use a::{b, c};

#[derive(Debug)]
pub struct S {
    a: u8,
}

impl Display for S {
    /// doc
    #[inline]
    fn fmt(&self) -> Result {
        match x {
            A => {
                y();
            }
            B => z,
        }
        if let Some(x) = y {
        }
    }
}

impl<T> S<T> {
    const K: u8 = 1;
}

pub(crate) mod tests {
    fn a() {}
}
enum E { A, B }
trait T { fn x(&self); }
macro_rules! mm { () => {}; }
static Z: u8 = 1;
type A = u8;
mod other;
"""

JAVA = """\
package a.b;

import java.util.List;
import static x.Y.z;

/** doc */
@Foo
public class A extends B {
  private static final int X = 1;

  public A() {
  }

  @Override
  public <T> void f(int a) throws E {
    if (a) {
    }
    for (int i : x) {
    }
    try {
    } catch (E e) {
    } finally {
    }
    list.forEach(x -> {
      y();
    });
  }
  void f() {}
  enum E { A, B; }
  interface I { void m(); }
}
record R(int a) {}
"""

C = """\
#include <stdio.h>
#include "a.h"
#define X 1
#define F(a) a

typedef struct {
  int a;
} T;
struct S {
  int b;
};
static int g = 1;
int proto(int);
/* doc */
static int
foo(int a, char *b)
{
  if (a) {
    x();
  }
  for (;;) {
  }
  switch (a) {
  case 1:
    break;
  }
}
char *bar(void) { return 0; }
enum E { A, B };
#ifdef Z
int z(void) {
}
#endif
"""

CPP = """\
#include <vector>
namespace a {
template <typename T>
class A : public B<T> {
 public:
  A();
  ~A() {}
  int f(int x) const {
    if (x) {
    }
    return 1;
  }
  int y;
};

int A::g(int a) {
  auto l = [&](int x) {
    return x;
  };
}
template <typename T>
void h(T t) {
}
bool operator==(const A& a, const A& b) {
  return true;
}
}  // namespace a
using std::string;
extern "C" {
int q(void);
}
"""

CSHARP = """\
using System;
namespace N
{
    /// <summary>
    [Attr]
    public class A : B
    {
        private int x = 1;
        public int P { get; set; }
        public A() { }
        public void M(int a)
        {
            if (a)
            {
            }
            foreach (var x in y)
            {
            }
            Do(x =>
            {
                y();
            });
        }
    }
    interface I { void M(); }
    enum E { A }
    record R(int a);
    struct S { }
}
"""

RUBY = """\
require "a"
require_relative "b"

module M
  # doc
  class A < B
    X = 1
    include C
    def f(a)
      if a
        1
      elsif b
        3
      else
        2
      end
      x.each do |y|
        z
      end
    end

    def self.g; 1; end
  end
end
describe "x" do
  it "y" do
    z
  end
end
"""

PHP = """\
<?php
namespace A\\B;

use C\\D;
use E\\{F, G};

const K = 1;

/** doc */
#[Attr]
final class A extends B implements I
{
    use T;
    const X = 1;
    private $p = 1;

    public function f(int $a): int
    {
        if ($a) {
        } elseif ($b) {
        } else {
        }
        foreach ($a as $b) {
        }
        return array_map(function ($x) {
            return $x;
        }, $y);
    }
}
function g() {
}
interface I {}
trait T { }
enum E { case A; }
"""

KOTLIN = """\
package a

import b.c
import d.*

/** doc */
@Anno
class A(val x: Int) : B() {
    private val y = 1
    companion object {
        const val Z = 1
    }
    override fun f(a: Int): Int {
        if (a) {
        } else {
        }
        when (a) {
            1 -> {
                x()
            }
        }
        list.forEach {
            x()
        }
        return 1
    }
}
fun g() = 1
object O {
}
interface I
enum class E { A, B }
val top = 1
data class D(val a: Int)
fun String.ext() {
}
"""

HTML = """\
<!DOCTYPE html>
<html>
<head>
  <title>x</title>
  <script src="a">
    var x = 1;
  </script>
  <style>
    a { b: c }
  </style>
</head>
<body>
  <div id="main" class="x">
    <p>hi</p>
    <br>
    <ul>
      <li>1</li>
    </ul>
  </div>
</body>
</html>
"""

CSS = """\
@import "x.css";
:root {
  --a: 1;
}
.a > b,
c:hover {
  color: red;
}
@media (max-width: 1px) {
  .d {
    x: y;
  }
}
@keyframes k {
  from { a: b; }
}
@font-face { src: x; }
"""

JSON = """\
{
  "a": 1,
  "b": {
    "c": [
      { "d": 1 },
      2
    ]
  }
}
"""

YAML = """\
# top
on:
  push:
    branches: [a]
jobs:
  # doc
  build:
    steps:
      - name: x
        run: |
          foo
          bar
      - uses: y
---
a: 1
"q": 2
"""

TOML = """\
top = 1
[a]
x = 1
y = [
  1,
]
[a.b]
z = { c = 1 }
[[arr]]
n = 1

[[arr]]
n = 2
"""

MARKDOWN = """\
# T

intro

## A
text

```python
# not heading
```

### A1

x

Setext
------

para
"""

SHELL = """\
#!/bin/bash
source x.sh
export A=1
B=2
# doc
foo() {
  if [ a ]; then
    x
  elif b; then
    y
  else
    z
  fi
  for i in a; do
    y
  done
  case $x in
    a)
      b
      ;;
  esac
}
function bar {
  while true; do
    x
  done
}
"""

SQL = """\
-- doc
CREATE TABLE a (
  id INT,
  b TEXT
);
CREATE VIEW v AS
SELECT 1
FROM a;
CREATE OR REPLACE FUNCTION f() RETURNS int AS $$
BEGIN
  RETURN 1;
END;
$$ LANGUAGE plpgsql;
INSERT INTO a VALUES (1);
with x as (
  select 1
)
select * from x;
"""

SAMPLES = {
    "python": PYTHON,
    "typescript": TYPESCRIPT,
    "javascript": JAVASCRIPT,
    "go": GO,
    "rust": RUST,
    "java": JAVA,
    "c": C,
    "cpp": CPP,
    "csharp": CSHARP,
    "ruby": RUBY,
    "php": PHP,
    "kotlin": KOTLIN,
    "html": HTML,
    "css": CSS,
    "json": JSON,
    "yaml": YAML,
    "toml": TOML,
    "markdown": MARKDOWN,
    "shell": SHELL,
    "sql": SQL,
}
"""By canonical language name."""
