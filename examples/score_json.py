"""Score rows by a model.json of fewpass: python score_json.py MODEL.json < ROWS.jsonl"""

import base64
import bisect
import json
import math
import re
import sys
import zlib
from datetime import UTC, datetime, timedelta

DAY, YEAR, UNITS = 86400, 365.25 * 86400, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ZONE = r"(:\d\d|T\d{4,6}) ?([-+]\d\d):?(\d\d)( \([A-Za-z ]+\))?$"
CLOCKS = (
    r"(-?)(?:(\d+) days?,? \+?)?(\d+):(\d\d)(?::([\d.]+))? ?(?:([AaPp])[Mm])?",
    r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?()",
)


def clock(text):
    sign, days, *clocks, half = next(filter(None, (re.fullmatch(c, text) for c in CLOCKS))).groups()
    hours, minutes, seconds = (float(part or 0) for part in clocks)
    hours = hours % 12 + 12 * (half in "Pp") if half else hours
    rest, days = hours * 3600 + minutes * 60 + seconds, float(days or 0) * DAY
    if not sign:
        return days + rest
    return rest - days if days and "P" not in text else -days - rest


def signed(digits):
    return -float(digits.strip("()")) if digits.startswith("(") else float(digits)


PLAIN = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
WRITTEN = {
    "plain": float,
    "clock": clock,
    "units": lambda text: signed(re.sub("[^0-9.()+-]", "", text)),
    "comma": lambda text: signed(re.sub("[A-Z]{3}|[^0-9,eE()+-]", "", text).replace(",", ".")),
}


def said(cell):
    """Return what a cell says as text; an empty one: it says nothing."""
    if isinstance(cell, float):
        whole = cell.is_integer() and abs(cell) < 1e37
        return f"{cell + 0.0:.0f}" if whole else repr(cell)
    return "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)


def hashable(text):
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text, re.ASCII) else text


def word(cell, read):
    text = said(cell)
    return None if text in ("", *read["missing"]) else text


def known_as(cell, read, x, what):
    """Return x; None where a cell says nothing, or a word that counts as missing."""
    text = said(cell)
    if not math.isnan(x) and text not in read["missing"]:
        return x if math.isfinite(x) else None
    nothing = text in ("", *read["missing"]) or re.search(read["nothing"], text, re.ASCII)
    if read.get("required") or not (nothing or read.get("takes_words")):
        raise ValueError(f"{cell!r:.80} is no {what} that this column has")
    return None


def number_in(text, read):
    fits = re.fullmatch(read["shape"], text.strip(), re.ASCII)
    return WRITTEN[read["written"]](text.strip()) if fits else math.nan


def number(cell, read):
    x = math.nan
    if isinstance(cell, str):
        x = number_in(cell, read)
    elif isinstance(cell, (int, float)):
        x = float(cell) if abs(cell) <= sys.float_info.max else math.inf
    gone = any(number_in(text, read) == x for text in read["missing"])
    return known_as(None if gone else cell, read, math.nan if gone else x, "number")


def parsed(text, form):
    text = re.sub(r" ?(UTC|GMT|Z)( \([A-Za-z ]+\))?$", "+0000", text.strip(" \t\n\f\r"))
    text = re.sub(ZONE, r"\1 \2\3", re.sub(r"(:\d\d)[.,]\d+", r"\1", text))
    text = re.sub(r"([T ]\d\d:\S*) ?([-+]\d\d)$", r"\1 \g<2>00", text)  # hours alone
    if form == "ISO":
        text = re.sub(r"(?<!\d)(\d)(?=[-T :]|$)", r"0\1", text)  # 2026-3-1 5:00
    if form == "ISO" and re.match(r"\d{4}-\d\d-\d\d([T ](?!24)|$)", text):
        return datetime.fromisoformat(re.sub(r" ([-+]\d{4})$", r"\1", text))
    if form == "%Y-Q%q":
        return datetime(int(text[:4]), 3 * int(text[-1]) - 2, 1)
    if form == "%G-W%V":
        year, week, weekday = re.fullmatch(r"(\d{4})-?W(\d\d)-?([1-7]?)", text).groups()
        return datetime.fromisocalendar(int(year), int(week), int(weekday or 1))
    short = re.sub("([A-Za-z]{3})[A-Za-z]+", r"\1", text)  # March is Mar
    return datetime.strptime(short, form.replace("%B", "%b"))


def seconds(text, form, first):
    try:
        when = parsed(text, form)
        if "%y" in form and first is not None:
            when = when.replace(year=first + (when.year - first) % 100)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return float(math.floor(when.timestamp()))
    except (ValueError, AttributeError):
        return math.nan


def moment(cell, read):
    form = read["form"] or "ISO"
    if form in UNITS:
        x = number(cell, read | {"shape": PLAIN, "written": "plain"})
        x = math.nan if x is None else x * UNITS[form]
    else:
        every = (seconds(hashable(said(cell)), one, read["first_year"]) for one in form.split("|"))
        x = known_as(cell, read, next((x for x in every if not math.isnan(x)), math.nan), "date")
    usual = x is not None and -62_104_000_000 <= x < 253_370_764_800
    return x if usual and x not in read["standins"] else None


def interpolated(x, points, y):
    k = bisect.bisect_right(points, x)
    if k in (0, len(points)):
        return y[0] if k == 0 else y[-1]
    return y[k - 1] + (x - points[k - 1]) * (y[k] - y[k - 1]) / (points[k] - points[k - 1])


def in_years(x, first, last):
    beyond = max(x - last, 0) - max(first - x, 0)
    x -= math.copysign(math.ceil(abs(beyond) / YEAR), beyond) * YEAR
    return min(max(x, first), last)


def part(x, of):
    if of == "time of day":
        return x % DAY / 3600
    when = datetime(1970, 1, 1) + timedelta(seconds=math.floor(x))
    if of == "day of the year":
        return when.timetuple().tm_yday
    return {"weekday": when.weekday(), "month": when.month - 1, "hour": when.hour}[of]


def stepped(x, steps):
    for step in steps:
        x = STEPS[step["step"]](x, step)
    return x


STEPS = {
    "clip": lambda x, s: min(max(x, s["low"]), s["high"]),
    "log1p": lambda x, s: math.log1p(x),
    "standardise": lambda x, s: (x - s["mean"]) / s["deviation"],
    "part": lambda x, s: part(x, s["of"]),
    "in_years": lambda x, s: in_years(x, s["first"], s["last"]),
    "range": lambda x, s: bisect.bisect_right(s["edges"], x),
}


def murmur3(data):
    state, low = 0, 0xFFFFFFFF
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & low
        state ^= ((word << 15 | word >> 17) & low) * 0x1B873593 & low
        if at + 4 <= len(data):
            state = ((state << 13 | state >> 19) & low) * 5 + 0xE6546B64 & low
    state ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = (state ^ state >> shift) * factor & low
    return state - (state >> 31 << 32)  # of 32 bits, signed


def grams(text, kind):
    data = text.encode().lower()  # of bytes: ASCII alone
    if kind == "characters":
        text = data.decode()
        yield from (text[k : k + n].encode() for n in (3, 4, 5) for k in range(len(text) - n + 1))
        return
    before = None
    for word in re.finditer(rb"[0-9a-z\x80-\xff]+", data):
        yield word[0]
        if before is not None:
            yield re.sub(rb"[^0-9a-z\x80-\xff]", b" ", data[before : word.end()])
        before = word.start()


def text_values(text, term):
    idf, mask, sums = zlib.decompress(base64.b64decode(term["idf"])), (1 << term["bits"]) - 1, {}
    for code in map(murmur3, grams(text, term["grams"])):
        sums[code & mask] = sums.get(code & mask, 0) + (1 if code >= 0 else -1)
    values = {k: math.copysign(1 + math.log(abs(n)), n) * idf[k] / 16 for k, n in sums.items() if n}
    size = math.sqrt(sum(v * v for v in values.values())) or 1.0
    return [(k, v / size) for k, v in values.items()]


def list_values(cell, term):
    if term["term"] == "vector":
        if not cell:
            return [(len(term["mean"]), 1.0)]
        if len(cell) != len(term["mean"]):
            raise ValueError(f"{cell!r:.80} has {len(cell)} numbers, not {len(term['mean'])}")
        each = enumerate(zip(cell, term["mean"], term["deviation"]))
        return [
            (k, (x - mean) / by) for k, (x, mean, by) in each if x is not None and math.isfinite(x)
        ]
    if term["term"] == "tags":
        known = {word: k for k, word in enumerate(term["values"])}
        return [
            (k, 1.0)
            for k in {known.get(word, len(known)) for word in cell or () if word is not None}
        ]
    known = {name: (k, s) for k, (name, s) in enumerate(zip(term["names"], term["scale"]))}
    pairs = [(known.get(name), x) for name, x in dict(cell or {}).items() if x is not None]
    return [(hit[0], x * hit[1]) if hit else (len(known), 1.0) for hit, x in pairs]


def place_of(x, among):
    known = among["values"]
    if x is None:
        return len(known) + 1
    if among["any_case"]:
        x, known = x.lower(), [word.lower() for word in known]
    whole = re.fullmatch(r"-?\d+(\.0)?", x, re.ASCII)
    spelt = (x, x.removesuffix(".0"), f"{x}.0") if whole else (x,)  # 3 is 3.0
    return next((known.index(one) for one in spelt if one in known), len(known))


def levels(x, of):
    """Return the levels of a cell, and its share of each."""
    if of["argument"] == "words":
        return [(place_of(x, of), 1.0)]
    size = of["size"] if of["argument"] == "codes" else len(of["x"])
    if x is None:
        return [(size, 1.0)]
    x = stepped(x, of["steps"])
    if of["argument"] == "codes":
        return [(x, 1.0)]
    k = bisect.bisect_right(of["x"], x)
    if k in (0, size):
        return [(max(k - 1, 0), 1.0)]
    right = (x - of["x"][k - 1]) / (of["x"][k] - of["x"][k - 1])
    return [(k - 1, 1 - right), (k, right)]


def read_cells(cells, read):
    """Return what a column, or two, hold in a row: a number, a word, a list; None if missing."""
    if read["cell"] == "two":
        return [read_cells([cell], read[own]) for cell, own in zip(cells, "ab")]
    if read["cell"] in ("number", "moment"):
        return (number if read["cell"] == "number" else moment)(cells[0], read)
    if read["cell"] == "word":
        return word(cells[0], read)
    if read["cell"] == "pair":
        words = [word(cell, read) for cell in cells]
        return None if None in words else read["between"].join(map(hashable, words))
    return cells[0]


def cell_in(row, name):
    """Return a column's cell: of a.b the member b of the object a, as JSON lines have it."""
    for k in (k for k, letter in enumerate(name) if letter == "." and name not in row):
        inner = row.get(name[:k], name)
        if inner is None:
            return None
        if isinstance(inner, dict):
            return cell_in(inner, name[k + 1 :])
    return row[name]


def features(x, term):
    """Yield the features of a term, with their values."""
    if term["term"] == "value":
        if x is not None:
            yield 0, stepped(x, term["steps"])
    elif term["term"] == "hash":
        code = 1 if x is None else murmur3((term["prefix"] + hashable(x)).encode())
        slot = 1 << term["bits"] if x is None else abs(code) % (1 << term["bits"])
        yield slot, 1.0 if code >= 0 else -1.0
    elif term["term"] == "text":
        yield from text_values(hashable(x or ""), term)
    else:
        yield from list_values(x, term)


def weighed(column, row):
    """Yield the weights, for each score, that a row has of a column's functions; and shares."""
    x = read_cells([cell_in(row, name) for name in column["columns"]], column["read"])
    for one in column["functions"]:
        weights = one["weights"]
        if one["function"] == "effect":
            yield from ((weights[k], share) for k, share in levels(x, one["of"]))
        elif one["function"] == "interaction":
            for i, share in levels(x[0], one["a"]):
                for j, other in levels(x[1], one["b"]):
                    yield weights[i][j], share * other
        else:
            for k, value in features(x, one["term"]):
                if str(k) in weights:
                    yield weights[str(k)], value


def sigmoid(s):
    return 1 / (1 + math.exp(-s)) if s > -700 else 0.0


def shares(scores, how):
    if how["kind"] == "steps":
        return [interpolated(scores[0], how["scores"], how["p"])]
    if how["kind"] == "sigmoid":
        p = [sigmoid(how["slope"] * s + how["offset"]) for s in scores]
    else:
        logs = [how["slope"] * s + offset for s, offset in zip(scores, how["offsets"])]
        p = [math.exp(s - max(logs)) for s in logs]
    return p if len(p) == 1 else [one / sum(p) if sum(p) else 1.0 / len(p) for one in p]


def predict(model, row):
    scores = list(model["intercept"])
    for column in model["columns"]:
        for weights, share in weighed(column, row):
            scores = [s + share * w for s, w in zip(scores, weights)]
    output = model["output"]
    if output["kind"] == "number":
        x = math.exp(min(scores[0], 700)) if output["response"] == "exp" else scores[0]
        return {
            "prediction": min(max(x, output["clip"][0]), output["clip"][1]) if output["clip"] else x
        }
    best = int(scores[0] > 0) if len(scores) == 1 else scores.index(max(scores))
    answer = {"label": output["classes"][best], "scores": scores}
    if output["probabilities"]:
        p = shares(scores, output["probabilities"])
        answer["probabilities"] = [1 - p[0], p[0]] if len(p) == 1 else p
    return answer


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        model = json.load(file)
    for line in sys.stdin:
        print(json.dumps(predict(model, json.loads(line))))
