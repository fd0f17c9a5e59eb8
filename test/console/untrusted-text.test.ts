/** The console shows the characters that a publish allows, and codes in place of those that it refuses. */
import t from 'tap';
import { getErrorMessage, Problem } from '../../console/rest/problem.ts';
import { escapeLine, escapeText, formatJson } from '../../console/style/untrusted-text.ts';

t.test('text that spelling and emoji need is shown as it is', async (t) => {
  const allowed = {
    'lines and tabs': 'one\r\ntwo\tthree\n',
    'the joiner of Persian': 'می\u200cخواهم',
    'the joiner of Devanagari': 'क्\u200dष',
    'an emoji of several people': '👩🏽\u200d🚒 👨\u200d👩\u200d👧',
    'an emoji shown in colour and as text': '❤\uFE0F ✔\uFE0E',
    'the keycap of a digit': '1\uFE0F\u20E3',
    'a form of a Mongolian letter': 'ᠠ\u180B',
    'a drawing of Braille': '⠃\u2800⠁\n\u2800\u2800⣿',
    'the flags of a country and of a region': '🇨🇭 🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}',
    'a form of a Chinese character': '葛\u{E0100}',
  };
  for (const [name, text] of Object.entries(allowed)) t.equal(escapeText(text), text, name);
});

t.test('a line of a file with line breaks of Windows shows no carriage return, except in the middle', async (t) => {
  t.equal(escapeLine('one\r'), 'one\r\n');
  t.equal(escapeLine('one\rtwo'), 'one⟨U+000D⟩two\n');
});

t.test('a character that hides text or changes its order is shown as a code', async (t) => {
  const hidden = {
    'a control character': ['\u001b[31m', '⟨U+001B⟩[31m'],
    'a carriage return that would overwrite the line': ['good\revil', 'good⟨U+000D⟩evil'],
    'a direction override': ['\u202egnp.exe', '⟨U+202E⟩gnp.exe'],
    'a joiner between Latin letters': ['pay\u200cpal', 'pay⟨U+200C⟩pal'],
    'a zero-width space': ['a\u200bb', 'a⟨U+200B⟩b'],
    'a tag': ['a\u{E0061}', 'a⟨U+E0061⟩'],
    'a lone variation selector': ['a\uFE0F', 'a⟨U+FE0F⟩'],
    'a variation selector after a digit': ['isAllowed1\uFE0F #\uFE0E', 'isAllowed1⟨U+FE0F⟩ #⟨U+FE0E⟩'],
    'a joiner after an accent of a Latin letter': [
      'a\u0308\u200Cb a\u02BC\u200D',
      'ä⟨U+200C⟩b aʼ⟨U+200D⟩'.normalize('NFD'),
    ],
    'a joiner after a Chinese comma': ['a、\u200C', 'a、⟨U+200C⟩'],
    'a joiner after a hidden letter': ['a\u061C\u200C a\u17B4\u200D', 'a⟨U+061C⟩⟨U+200C⟩ a⟨U+17B4⟩⟨U+200D⟩'],
    'two selectors without a letter': ['a\u180B\u180B', 'a⟨U+180B⟩⟨U+180B⟩'],
    'a line separator': ['a\u2028b', 'a⟨U+2028⟩b'],
    'private use': ['a\uE000\u{F0000}', 'a⟨U+E000⟩⟨U+F0000⟩'],
    'half a surrogate pair': ['a\ud800', 'a⟨U+D800⟩'],
  } as const;
  for (const [name, [text, shown]] of Object.entries(hidden)) t.equal(escapeText(text), shown, name);
  t.equal(formatJson({ a: '\u202e\ue000' }), '{\n  "a": "⟨U+202E⟩⟨U+E000⟩"\n}');
});

t.test('a refusal shows the reason of a plugin with codes, too', async (t) => {
  const detail = 'A plugin cancelled it: \u202egnp.`exe`';
  const body = {
    type: 'about:blank',
    title: 'Cancelled',
    status: 409,
    code: 'cancelled',
    detail,
    requestId: 'r',
  } as const;
  t.equal(getErrorMessage(new Problem(body)), 'A plugin cancelled it: ⟨U+202E⟩gnp.“exe”');
});
