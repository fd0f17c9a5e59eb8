/** The console shows the characters that a publish allows, and codes in place of those that it refuses. */
import t from 'tap';
import { escapeText, formatJson } from '../../console/style/untrusted-text.ts';

t.test('text that spelling and emoji need is shown as it is', async (t) => {
  const allowed = {
    'lines and tabs': 'one\r\ntwo\tthree\n',
    'the joiner of Persian': 'می\u200cخواهم',
    'the joiner of Devanagari': 'क्\u200dष',
    'an emoji of several people': '👩🏽\u200d🚒 👨\u200d👩\u200d👧',
    'an emoji shown in colour and as text': '❤\uFE0F ✔\uFE0E',
    'the flags of a country and of a region': '🇨🇭 🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}',
    'a form of a Chinese character': '葛\u{E0100}',
  };
  for (const [name, text] of Object.entries(allowed)) t.equal(escapeText(text), text, name);
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
    'a line separator': ['a\u2028b', 'a⟨U+2028⟩b'],
    'private use': ['a\uE000\u{F0000}', 'a⟨U+E000⟩⟨U+F0000⟩'],
    'half a surrogate pair': ['a\ud800', 'a⟨U+D800⟩'],
  } as const;
  for (const [name, [text, shown]] of Object.entries(hidden)) t.equal(escapeText(text), shown, name);
  t.equal(formatJson({ a: '\u202e\ue000' }), '{\n  "a": "⟨U+202E⟩⟨U+E000⟩"\n}');
});
