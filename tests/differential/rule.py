"""The rule by which two plays of one conversation are compared, step by step.

Compared: every method with every argument, every property with its type, bodies, how bodies were split into frames,
the end of a connection. Set aside:
  - the order of the top level of `headers`, doubled keys and L against l there: RabbitMQ 4.x writes the table anew,
    sorted (that Menzil gives back the bytes it got is asserted elsewhere);
  - names: the conversation's prefix is taken off, generated names are numbered in order of appearance;
  - streams: on one channel, within one step, what belongs to a consumer (consume-ok, deliver, cancel,
    cancel-ok) is compared per consumer, the rest in its order; consumers may interleave with each other and
    with the rest. Delivery tags are compared as the set the channel handed out in that step;
  - confirms: compared as the sets of tags acked and nacked by the step's end, however they were coalesced;
    that a return came after the confirm of its publish is written down as an event of its own;
  - the confirms and consumers of a channel in the step that closed it, or its connection, by an error; of a pipeline
    with an error, whatever came behind the error;
  - line breaks within a printed Erlang term;
  - the order of what a lost connection held unacknowledged, when another consumer gets it at once: RabbitMQ's channels
    give back independently of each other;
  - message counts within a pipeline, which RabbitMQ reads while its publishes are on their way;
  - timing: there is none; a step is over when barriers say so, and where it differs they are asked three times more.
"""

import json
import re

CONSUMER = ("basic.consume-ok", "basic.deliver", "basic.cancel", "basic.cancel-ok")


def canonical(seen):
    """{place: [event text]} with the aside things set aside."""
    out = {}
    lost = any(event[0] in ("eof", "dropped", "connection.close-ok") for events in seen.values() for event in events)
    for place, events in seen.items():
        if not events:
            continue
        streams, rest, tags, acked, nacked = {}, [], [], [], []
        for event in events:
            name, args = event[0], list(event[1:])
            if name in ("basic.ack", "basic.nack") and place != "handshake":
                (acked if name == "basic.ack" else nacked).extend(args)
                continue
            if name in ("basic.deliver", "basic.get-ok"):
                index = next(i for i, arg in enumerate(args) if str(arg).startswith("delivery_tag="))
                tags.append(int(args.pop(index).split("=")[1]))
            text = " ".join([name] + [str(arg) for arg in args])
            if name in CONSUMER:
                streams.setdefault(args[0], []).append(text)
            else:
                rest.append(text)
        if rest:
            out[place] = rest
        ended = any(event[0] == "eof" for event in seen.get(place.split("/")[0] + "/0", []))
        if ended or any(text.startswith("channel.close ") for text in rest):
            continue  # what else the channel would have said is up to chance
        for key, texts in streams.items():
            if lost:  # stable: what was redelivered goes behind the rest, in an order of its own
                texts.sort(key=lambda text: text if " redelivered=True " in text else "")
            out[f"{place} {key}"] = texts
        if tags:
            out[f"{place} tags"] = [str(sorted(tags))]
        if acked or nacked:
            out[f"{place} confirms"] = [f"acked {sorted(acked)} nacked {sorted(nacked)}"]
    return out


class Allowed:
    """The deliberate differences: regular expressions over the step, over any step up to it ("earlier"), and
    over what side a (RabbitMQ) and side b (Menzil) said at one place, in conversations about some "features"
    or in all; where "aside" is given, both say the same but for what it matches; where "elsewhere" is true, both
    delivered the same in this step, but to other consumers. Without "continue" the conversation ends there."""

    def __init__(self, path):
        self.rules = json.loads(path.read_text()) if path else []
        for rule in self.rules:
            for key in ("step", "a", "b", "earlier"):
                rule[key] = re.compile(rule.get(key, ""), re.DOTALL)

    def rule(self, feature, steps, texts_a, texts_b, same_delivered=False):
        """(id, whether the conversation may go on) of the rule that covers this difference, or None."""
        for rule in self.rules:
            aside = rule.get("aside")
            if rule.get("elsewhere") and not same_delivered:
                continue
            if aside and re.sub(aside, "", texts_a) != re.sub(aside, "", texts_b):
                continue
            if feature in rule.get("features", [feature]) and any(map(rule["earlier"].search, steps)) and rule["step"].search(steps[-1]) and rule["a"].search(texts_a) and rule["b"].search(texts_b):
                return rule["id"], rule.get("continue", False)
        return None


def delivered(seen):
    """What came to consumers in one step, whoever and wherever they are."""
    events = (event for events in seen.values() for event in events if event[0] == "basic.deliver")
    return sorted(" ".join(str(arg) for arg in event[2:] if not str(arg).startswith("delivery_tag=")) for event in events)


def differences(seen_a, seen_b):
    """[(place, texts a, texts b)] of one step."""
    one, other = canonical(seen_a), canonical(seen_b)
    return [(place, one.get(place, []), other.get(place, [])) for place in sorted(set(one) | set(other))
            if one.get(place) != other.get(place)]
