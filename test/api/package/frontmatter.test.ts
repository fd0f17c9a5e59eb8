/** Frontmatter as other editors write it, and at its bounds. */
import t from 'tap';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, introspectsMinimal, README, readmeWith } from './packages.ts';

const api = await startApiFixture(t, { introspect: introspectsMinimal });
const ann = await api.user('ann');
const withReadme = (readme: string) => ({ 'readme.md': readme, 'index.ts': INDEX });

t.test('frontmatter with other line ends and with YAML keywords is read', async (t) => {
  const { id } = (await ann.post('/plugins', { slug: 'editors', displayName: 'Editors' })).body;
  const readmes = {
    'a byte order mark': `\uFEFF${README}`,
    'Windows line ends': README.replaceAll('\n', '\r\n'),
    'a date': '---\nname: 2026-01-01\ndescription: yes and no\n---\n',
    'yes, which YAML 1.2 takes for text': '---\nname: yes\ndescription: on\n---\n',
    'a folded block without a line break at its end': '---\nname: x\ndescription: >-\n  one\n  sentence\n---\n',
    markup: '---\nname: <b>x</b>\ndescription: "<script>alert(1)</script>"\n---\n<script>alert(1)</script>\n',
  };
  for (const [at, [name, readme]] of Object.entries(readmes).entries()) {
    const files = fileList(withReadme(readme));
    const { status, body } = await ann.post(`/plugins/${id}/versions`, { semVer: `1.0.${at}`, files });
    t.equal(status, 201, `${name}: ${JSON.stringify(body)}`);
  }
});

t.test('many fields, and more than one document', async (t) => {
  const { id } = (await ann.post('/plugins', { slug: 'bounds', displayName: 'Bounds' })).body;
  const fields = Array.from({ length: 1_000 }, (_, at) => `f${at}: x`);
  const wrong: [lines: string[], error: object][] = [
    [fields, { path: 'readme.md', line: 4, field: 'f0', message: /known/ }],
    [['...', '%YAML 1.2', 'name: other'], { path: 'readme.md', message: /./ }],
    [
      ['settings:', '  a:', '    description: >', '      one', '      sentence'],
      {
        path: 'readme.md',
        line: 6,
        field: 'settings.a.description',
        message: 'must be one line: a block after > or | ends with a line break, and one after >- does not',
      },
    ],
    [['settings: { a: { label: "two\\nlines" } }'], { field: 'settings.a.label', message: 'must be one line' }],
  ];
  for (const [lines, error] of wrong) {
    const files = fileList(withReadme(readmeWith(...lines)));
    const { status, body } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files });
    t.equal(status, 422);
    t.match(body.errors[0], error);
  }
});
