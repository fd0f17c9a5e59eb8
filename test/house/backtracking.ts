/**
 * Finds regular expressions that can need more than linear time, also those that need a repeated word and not only a repeated character,
 * such as `<!--[^]*?-->` on `<!--<!--<!--`.
 *
 * An expression becomes an automaton with one state for each of its characters. It needs quadratic time if it has two states p and q and a
 * word that leads from p to p, from p to q and from q to q, and if a text of such words can fail to match. The search for a place where the
 * match starts is a state, too: a loop over any character. Assertions about one character are respected, longer ones count as
 * met, and a longer lookahead is also examined itself.
 */
import { type AST, RegExpParser, visitRegExpAST } from '@eslint-community/regexpp';

/** A repetition of more counts as one without an end. */
const LONG_REPETITION = 1_000;
/** Copies of a repeated part. More change nothing about which words overlap. */
const COPIES_MAX = 2;
/** Repetitions of the word, before the search for an end of the text that does not match. */
const REPEATS = 8;
/** Sets of states that this search visits at most. */
const ENDS_MAX = 300;
/** The edges of the text, which `^` and `$` match. */
const START = '⊢';
const END = '⊣';
/** Characters of attacks, besides those in the expression and their neighbours. */
const USUAL_CHARACTERS = [' ', '\n', 'a', 'Z', '0', '_', '-', '.', '/', '"', 'é', '中', '\u0001'];
const LAST_CODE_POINT = 0x10_ffff;
const WORD = /\w/;

/** Whether an assertion between two characters holds. */
type Condition = (before: string, after: string) => boolean;
const always: Condition = () => true;
const both = (one: Condition, other: Condition): Condition =>
  one === always ? other : other === always ? one : (before, after) => one(before, after) && other(before, after);

interface Edge {
  readonly state: number;
  readonly condition: Condition;
}
/** A part of the expression. */
interface Part {
  /** The conditions under which it matches the empty text, null: never. */
  readonly empty: Condition | null;
  readonly first: readonly Edge[];
  readonly last: readonly Edge[];
}
const EMPTY: Part = { empty: always, first: [], last: [] };

/** A text of many repetitions. */
export interface Attack {
  readonly before: string;
  readonly repeated: string;
  readonly after: string;
}

/** Returns a text for which the expression needs more than linear time, or null. */
export function findAttack(source: string, flags: string): Attack | null {
  const modes = { unicode: flags.includes('u'), unicodeSets: flags.includes('v') };
  const pattern = new RegExpParser().parsePattern(source, 0, source.length, modes);
  // The search of a lookahead takes time also where the whole matches.
  const goals: (AST.LookaheadAssertion | null)[] = [null];
  visitRegExpAST(pattern, {
    onAssertionEnter: (assertion) => {
      if (assertion.kind === 'lookahead') goals.push(assertion);
    },
  });
  for (const goal of goals) {
    const attack = findAttackOn(new Automaton(pattern, flags, goal));
    if (attack) return attack;
  }
  return null;
}

function findAttackOn(automaton: Automaton): Attack | null {
  if (automaton.twofold !== null) return { before: '', repeated: automaton.twofold, after: '' };
  const loops = findLoops(automaton);
  for (const p of loops.keys())
    for (const q of loops.keys()) {
      if (p === q || q === automaton.matched) continue;
      const repeated = findWord(automaton, { p, q, loops });
      const attack = repeated && completeAttack(automaton, p, repeated);
      if (attack) return attack;
    }
  return null;
}

class Automaton {
  /** The characters that attacks consist of: one of each kind that the expression treats alike. */
  alphabet: readonly string[];
  /** The state after a match. */
  readonly matched: number;
  /** A character that may be repeated in two ways, as in `(a+)+`. */
  twofold: string | null = null;
  /** Whether a transition depends on the character before it. */
  hasConditions = false;
  readonly #flags: string;
  readonly #goal: AST.LookaheadAssertion | null;
  #found: Part = EMPTY;
  /** The character sets of the expression. */
  readonly #sets: ReadonlySet<string>[] = [];
  /** The characters that lead into each state. */
  readonly #characters: ReadonlySet<string>[];
  readonly #next: Map<number, Condition>[];

  /** @param goal what is searched, null: the whole expression */
  constructor(pattern: AST.Pattern, flags: string, goal: AST.LookaheadAssertion | null) {
    this.#flags = flags;
    this.#goal = goal;
    this.alphabet = [...listCharacters(pattern)];
    const any = new Set([...this.alphabet, START, END]);
    // State 0 is the search for the start of the match.
    this.#characters = [any];
    this.#next = [new Map([[0, always]])];
    const whole = this.#buildAlternatives(pattern.alternatives);
    const { empty, last } = goal ? this.#found : whole;
    this.matched = this.#add(any);
    const search: Edge[] = [{ state: 0, condition: always }];
    const match: Edge[] = [{ state: this.matched, condition: always }];
    this.#link(match, match);
    this.#link(search, whole.first);
    this.#link(last, match);
    if (empty) this.#link([{ state: 0, condition: empty }], match);
    this.alphabet = this.#chooseCharacters();
  }

  get size(): number {
    return this.#next.length;
  }

  /** The states that may follow, by any character. */
  following(state: number): Iterable<number> {
    return this.#next[state]?.keys() ?? [];
  }

  /** The states that a character leads to. */
  advance(states: Iterable<number>, before: string, character: string): Set<number> {
    const reached = new Set<number>();
    for (const state of states)
      for (const [to, condition] of this.#next[state] ?? [])
        if (this.#characters[to]?.has(character) && condition(before, character)) reached.add(to);
    return reached;
  }

  /** Whether the text matches that ends in one of the states. */
  matches(states: Iterable<number>, last: string): boolean {
    const atEnd = this.advance(states, last, END);
    return atEnd.has(this.matched) || [...atEnd].some((state) => this.#next[state]?.has(this.matched));
  }

  /** The characters that lead into a state. */
  entry(state: number): readonly string[] {
    return this.alphabet.filter((character) => this.#characters[state]?.has(character));
  }

  #chooseCharacters(): string[] {
    const sets = [...new Set(this.#sets)];
    const kinds = new Map<string, string>();
    for (const character of this.alphabet) {
      const kind = [WORD.test(character), character === '\n', ...sets.map((set) => set.has(character))].join();
      if (!kinds.has(kind)) kinds.set(kind, character);
    }
    return [...kinds.values()];
  }

  #add(characters: ReadonlySet<string>): number {
    this.#characters.push(characters);
    return this.#next.push(new Map()) - 1;
  }

  #link(from: readonly Edge[], to: readonly Edge[]): void {
    for (const { state, condition } of from)
      for (const target of to) {
        const next = this.#next[state];
        const known = next?.get(target.state);
        const combined = both(condition, target.condition);
        if (combined !== always) this.hasConditions = true;
        if (known && known === always && combined === always) this.twofold ??= this.entry(target.state)[0] ?? null;
        next?.set(target.state, known ? (b, a) => known(b, a) || combined(b, a) : combined);
      }
  }

  #buildAlternatives(alternatives: readonly AST.Alternative[]): Part {
    const parts = alternatives.map(({ elements }) =>
      elements.map((element) => this.#build(element)).reduce((one, other) => this.#join(one, other), EMPTY),
    );
    const empties = parts.flatMap(({ empty }) => empty ?? []);
    return {
      empty:
        empties.length === 0
          ? null
          : empties.includes(always)
            ? always
            : (b, a) => empties.some((empty) => empty(b, a)),
      first: parts.flatMap(({ first }) => first),
      last: parts.flatMap(({ last }) => last),
    };
  }

  #join(one: Part, other: Part): Part {
    this.#link(one.last, other.first);
    const under = (edges: readonly Edge[], empty: Condition | null): Edge[] =>
      empty ? edges.map(({ state, condition }) => ({ state, condition: both(condition, empty) })) : [];
    return {
      empty: one.empty && other.empty && both(one.empty, other.empty),
      first: [...one.first, ...under(other.first, one.empty)],
      last: [...other.last, ...under(one.last, other.empty)],
    };
  }

  #build(element: AST.Element): Part {
    switch (element.type) {
      case 'Character':
      case 'CharacterSet':
      case 'CharacterClass':
      case 'ExpressionCharacterClass':
        return this.#buildOne(this.#select(element.raw));
      case 'Group':
      case 'CapturingGroup':
        return this.#buildAlternatives(element.alternatives);
      case 'Quantifier':
        return this.#buildRepetition(element);
      case 'Assertion':
        return this.#buildAssertion(element);
      default:
        return EMPTY;
    }
  }

  #select(raw: string): Set<string> {
    const one = new RegExp(`^(?:${raw})$`, this.#flags.replaceAll(/[gym]/g, ''));
    const selected = new Set(this.alphabet.filter((character) => one.test(character)));
    this.#sets.push(selected);
    return selected;
  }

  #buildOne(characters: ReadonlySet<string>): Part {
    const edges = [{ state: this.#add(characters), condition: always }];
    return { empty: null, first: edges, last: edges };
  }

  #buildRepetition({ element, min, max }: AST.Quantifier): Part {
    const isEndless = max >= LONG_REPETITION;
    let rest = EMPTY;
    for (let copy = Math.min(isEndless ? Math.max(min, 1) : max, COPIES_MAX); copy > 0; copy -= 1) {
      const part = this.#build(element);
      if (isEndless && rest === EMPTY) this.#link(part.last, part.first);
      rest = this.#join(part, rest);
      if (copy > min) rest = { ...rest, empty: always };
    }
    return rest;
  }

  #buildAssertion(assertion: AST.Assertion): Part {
    const isEveryLine = this.#flags.includes('m');
    switch (assertion.kind) {
      case 'start':
        if (isEveryLine) return { ...EMPTY, empty: (before) => before === START || before === '\n' };
        return this.#buildOne(new Set([START]));
      case 'end':
        if (isEveryLine) return { ...EMPTY, empty: (_, after) => after === END || after === '\n' };
        return this.#buildOne(new Set([END]));
      case 'word':
        return { ...EMPTY, empty: (before, after) => (WORD.test(before) !== WORD.test(after)) !== assertion.negate };
      case 'lookahead':
      case 'lookbehind':
        return this.#buildLookaround(assertion);
    }
  }

  #buildLookaround(assertion: AST.LookaroundAssertion): Part {
    const { kind, negate, alternatives } = assertion;
    const single = alternatives.map(({ elements }) => (elements.length === 1 ? elements[0] : undefined));
    if (single.every((element) => element?.type.startsWith('Character'))) {
      const characters = new Set(single.flatMap((element) => [...this.#select(element?.raw ?? '')]));
      return { ...EMPTY, empty: (b, a) => characters.has(kind === 'lookahead' ? a : b) !== negate };
    }
    if (assertion !== this.#goal) return EMPTY;
    this.#found = this.#buildAlternatives(alternatives);
    return this.#found;
  }
}

function listCharacters(pattern: AST.Pattern): Set<string> {
  const characters = new Set(USUAL_CHARACTERS);
  visitRegExpAST(pattern, {
    onCharacterEnter: ({ value }) => {
      for (const code of [value - 1, value, value + 1])
        if (code > 0 && code < LAST_CODE_POINT) characters.add(String.fromCodePoint(code));
    },
  });
  return characters;
}

type Loops = ReadonlyMap<number, ReadonlySet<number>>;

/** The states that lead back to themselves, each with the others on the way. */
function findLoops(automaton: Automaton): Loops {
  const reachable = Array.from({ length: automaton.size }, (_, from) => {
    const reached = new Set<number>(automaton.following(from));
    for (const state of reached) for (const to of automaton.following(state)) reached.add(to);
    return reached;
  });
  const states = [...reachable.keys()].filter((state) => reachable[state]?.has(state));
  const isLoop = (one: number, other: number): boolean =>
    reachable[one]?.has(other) === true && reachable[other]?.has(one) === true;
  return new Map(states.map((state) => [state, new Set(states.filter((other) => isLoop(state, other)))]));
}

interface Step {
  readonly states: readonly [number, number, number];
  readonly character: string;
  readonly previous: Step | null;
}

/** A word that leads from p to p, from p to q and from q to q. */
function findWord(automaton: Automaton, { p, q, loops }: { p: number; q: number; loops: Loops }): string[] | null {
  const common = automaton.entry(p).filter((character) => automaton.entry(q).includes(character));
  // The last character of a word stands before its next repetition.
  for (const start of automaton.hasConditions ? common : common.slice(0, 1)) {
    const steps: Step[] = [{ states: [p, p, q], character: start, previous: null }];
    const seen = new Set<string>();
    for (const step of steps)
      for (const next of continueWord(automaton, step, loops)) {
        const key = automaton.hasConditions ? `${next.states} ${next.character}` : `${next.states}`;
        if (seen.has(key)) continue;
        seen.add(key);
        steps.push(next);
        const [x, y, z] = next.states;
        if (x === p && y === q && z === q && (next.character === start || !automaton.hasConditions)) return spell(next);
      }
  }
  return null;
}

function* continueWord(automaton: Automaton, step: Step, loops: Loops): Generator<Step> {
  const [a, b, c] = step.states;
  for (const character of automaton.alphabet) {
    const [first, middle, last] = [a, b, c].map((state) => automaton.advance([state], step.character, character));
    for (const x of first ?? [])
      for (const z of last ?? [])
        if (loops.get(a)?.has(x) && loops.get(c)?.has(z))
          for (const y of middle ?? [])
            if (y !== automaton.matched) yield { states: [x, y, z], character, previous: step };
  }
}

function spell(step: Step): string[] {
  return step.previous === null ? [] : [...spell(step.previous), step.character];
}

/** Finds a text before the repetitions and one after them with which the whole does not match. */
function completeAttack(automaton: Automaton, p: number, repeated: readonly string[]): Attack | null {
  for (const opening of [[], ...automaton.entry(0).map((character) => [character])]) {
    const path = findPath(automaton, p, opening);
    const after = path && findEnd(automaton, [START, ...path, ...Array(REPEATS).fill(repeated).flat()]);
    if (after) return { before: path.join(''), repeated: repeated.join(''), after: after.join('') };
  }
  return null;
}

/** A text that leads to a state and begins as given. */
function findPath(automaton: Automaton, target: number, opening: readonly string[]): string[] | null {
  const paths = new Map<number, string[]>();
  for (const state of enter(automaton, [START, ...opening])) paths.set(state, [...opening]);
  for (const [state, path] of paths) {
    if (state === target) return path;
    for (const to of automaton.following(state)) {
      const character = automaton.entry(to)[0];
      if (character !== undefined && !paths.has(to)) paths.set(to, [...path, character]);
    }
  }
  return null;
}

/** The states after a text. */
function enter(automaton: Automaton, text: readonly string[]): Set<number> {
  let states = new Set([0]);
  for (const [index, character] of text.entries()) states = automaton.advance(states, text[index - 1] ?? '', character);
  return states;
}

/** The end of a text that does not match. */
function findEnd(automaton: Automaton, text: readonly string[]): string[] | null {
  const open = [{ states: enter(automaton, text), end: [] as string[] }];
  const seen = new Set<string>();
  for (const { states, end } of open) {
    const last = end.at(-1) ?? text.at(-1) ?? START;
    if (states.has(automaton.matched)) continue;
    if (!automaton.matches(states, last)) return end;
    for (const character of automaton.entry(0)) {
      const following = automaton.advance(states, last, character);
      const key = `${[...following].sort()}`;
      if (seen.has(key) || seen.size > ENDS_MAX) continue;
      seen.add(key);
      open.push({ states: following, end: [...end, character] });
    }
  }
  return null;
}
