/**
 * A use of each library: its import, and what it does with untrusted words and an untrusted record, whose names are those of every
 * object's properties. The answer must be JSON, and the same in a plugin as in Node.
 */
export interface LibraryCase {
  readonly imports: string;
  /** The body of `async (words, record) => …`. */
  readonly body: string;
  /** A file whose exports replace globals of the library. */
  readonly inject?: string;
}
const use = (imports: string, body: string): LibraryCase => ({ imports, body });

export const libraryCases: Readonly<Record<string, LibraryCase>> = {
  '@google/generative-ai': use(
    `import { GoogleGenerativeAI, SchemaType } from '@google/generative-ai';`,
    `return [typeof new GoogleGenerativeAI('k').getGenerativeModel({ model: words[0] }).generateContent, SchemaType.OBJECT];`,
  ),
  '@langchain/core': use(
    `import { ChatPromptTemplate } from '@langchain/core/prompts'; import { RunnableLambda } from '@langchain/core/runnables'; import { StringOutputParser } from '@langchain/core/output_parsers'; import { AIMessage } from '@langchain/core/messages';`,
    `const chain = ChatPromptTemplate.fromMessages([['system', 'x'], ['human', '{constructor} {plain}']]).pipe(RunnableLambda.from((p) => new AIMessage(p.messages.map((m) => m.content).join('|')))).pipe(new StringOutputParser()); const parts = []; for await (const part of await chain.stream({ constructor: words[0], plain: 'y' })) parts.push(part); return parts;`,
  ),
  '@mistralai/mistralai': use(
    `import { Mistral } from '@mistralai/mistralai';`,
    `return typeof new Mistral({ apiKey: words[0] }).chat.complete;`,
  ),
  '@msgpack/msgpack': use(
    `import { encode, decode } from '@msgpack/msgpack';`,
    `return decode(encode({ words, n: 1.5, list: Object.entries(record).filter(([k]) => k !== '__proto__') }));`,
  ),
  '@noble/curves': use(
    `import { secp256k1 } from '@noble/curves/secp256k1.js'; import { bytesToHex } from '@noble/curves/utils.js';`,
    `const key = new Uint8Array(32).fill(7); const message = new TextEncoder().encode(words.join()); return [bytesToHex(secp256k1.getPublicKey(key)), secp256k1.verify(secp256k1.sign(message, key), message, secp256k1.getPublicKey(key))];`,
  ),
  '@noble/hashes': use(
    `import { sha256 } from '@noble/hashes/sha2.js'; import { blake3 } from '@noble/hashes/blake3.js'; import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';`,
    `return [sha256, blake3].map((hash) => bytesToHex(hash(utf8ToBytes(words.join()))));`,
  ),
  '@notionhq/client': use(
    `import { Client } from '@notionhq/client';`,
    `return typeof new Client({ auth: words[0], fetch: async () => new Response('{}') }).databases.retrieve;`,
  ),
  '@supabase/supabase-js': use(
    `import { createClient } from '@supabase/supabase-js';`,
    `const { data } = await createClient('https://a.example', 'key', { auth: { persistSession: false, autoRefreshToken: false }, realtime: { transport: class {} }, global: { fetch: async (url) => new Response(JSON.stringify([String(url)]), { headers: { 'content-type': 'application/json' } }) } }).from('t').select(words[0]); return data;`,
  ),
  acorn: use(
    `import { parse } from 'acorn';`,
    `return parse('const { constructor, hasOwnProperty } = words;', { ecmaVersion: 2026 }).body[0].declarations[0].id.properties.map((p) => p.key.name);`,
  ),
  ai: use(
    `import { cosineSimilarity, jsonSchema, parsePartialJson, simulateReadableStream } from 'ai';`,
    `const parts = []; for await (const part of simulateReadableStream({ chunks: words, initialDelayInMs: 0, chunkDelayInMs: 0 })) parts.push(part); return [parts, cosineSimilarity([1, 2], [2, 1]), (await parsePartialJson('{"constructor":[1,{"plain":"x')).value, jsonSchema({ type: 'object' }).jsonSchema];`,
  ),
  ajv: use(
    `import Ajv from 'ajv';`,
    `const check = new Ajv({ code: { esm: false } }).compile({ type: 'object', properties: { constructor: { type: 'string' } }, required: ['constructor'], additionalProperties: { type: 'string' } }); return [check(record), check({}), check(JSON.parse('{"constructor":1}'))];`,
  ),
  arktype: use(
    `import { type } from 'arktype';`,
    `const word = type({ constructor: 'string', plain: 'string' }); return [word(record) instanceof type.errors, word({ constructor: 1 }) instanceof type.errors];`,
  ),
  async: use(
    `import { mapLimit, groupBy } from 'async';`,
    `const groups = await groupBy(words, async (w) => w); return [await mapLimit(words, 2, async (w) => w.length), Object.keys(groups)];`,
  ),
  axios: use(
    `import axios from 'axios';`,
    `const api = axios.create({ adapter: async (config) => ({ data: JSON.stringify({ url: axios.getUri(config), sent: config.data }), status: 200, statusText: '', headers: {}, config }) }); return (await api.post('https://a.example/x', record, { params: { constructor: words[0] } })).data;`,
  ),
  'big.js': use(
    `import Big from 'big.js';`,
    `return words.reduce((sum, w) => sum.plus(w.length).div(3), Big('0.1')).toFixed(10);`,
  ),
  'bignumber.js': use(
    `import { BigNumber } from 'bignumber.js';`,
    `return [new BigNumber('0.1').plus('0.2').toString(), new BigNumber(words.length).pow(20).toFixed()];`,
  ),
  bluebird: {
    ...use(`import Bluebird from 'bluebird';`, `return Bluebird.map(words, (w) => Bluebird.resolve(w.length));`),
    inject: 'own-error.ts',
  },
  'bn.js': use(
    `import BN from 'bn.js';`,
    `return new BN('123456789012345678901234567890').mul(new BN(words.length)).toString(16);`,
  ),
  bytes: use(`import bytes from 'bytes';`, `return [bytes('5MB'), bytes(1536), bytes.parse(words[0])];`),
  'change-case': use(
    `import { camelCase, kebabCase } from 'change-case';`,
    `return words.map((w) => [camelCase(w), kebabCase(w)]);`,
  ),
  cheerio: use(
    `import * as cheerio from 'cheerio';`,
    `const $ = cheerio.load('<ul>' + words.map((w) => '<li data-' + w.toLowerCase() + '="1" class="' + w + '">' + w + '</li>').join('') + '</ul>'); return $('li').map((_, li) => $(li).text() + JSON.stringify($(li).attr())).get();`,
  ),
  'chroma-js': use(
    `import chroma from 'chroma-js';`,
    `return [chroma('hotpink').hex(), chroma.scale(['#fff', '#000']).colors(3), chroma.valid(words[0])];`,
  ),
  'chrono-node': use(
    `import * as chrono from 'chrono-node';`,
    `return chrono.parse('constructor on 5 May 2026 at 14:00', new Date(0)).map((r) => [r.text, r.start.get('year'), r.start.get('hour')]);`,
  ),
  compromise: use(
    `import nlp from 'compromise';`,
    `return [nlp('The constructor walked to hasOwnProperty.').verbs().out('array'), nlp(words.join(' ')).terms().out('array').length];`,
  ),
  'cron-parser': use(
    `import { CronExpressionParser } from 'cron-parser';`,
    `return CronExpressionParser.parse('*/15 9 * * 1-5', { currentDate: new Date(0), tz: 'UTC' }).next().toISOString();`,
  ),
  cronstrue: use(
    `import cronstrue from 'cronstrue';`,
    `return [cronstrue.toString('*/5 * * * *'), cronstrue.toString(words[0], { throwExceptionOnParseError: false })];`,
  ),
  'crypto-js': use(
    `import CryptoJS from 'crypto-js';`,
    `return [CryptoJS.SHA256(words.join()).toString(), CryptoJS.HmacSHA1(words[0], 'k').toString(CryptoJS.enc.Base64)];`,
  ),
  'csv-parse': use(
    `import { parse } from 'csv-parse/browser/esm/sync';`,
    `return parse('constructor,hasOwnProperty,plain\\n' + words.slice(0, 3).join(), { columns: true });`,
  ),
  'csv-stringify': use(
    `import { stringify } from 'csv-stringify/browser/esm/sync';`,
    `return stringify([record], { header: true, columns: ['constructor', 'hasOwnProperty', 'plain'] });`,
  ),
  'currency.js': use(
    `import currency from 'currency.js';`,
    `return [currency('1,234.56').add(0.1).format(), currency(words[0]).value];`,
  ),
  'd3-array': use(
    `import { group, rollup, extent, bin } from 'd3-array';`,
    `return [[...group(words, (w) => w).keys()], [...rollup(words, (v) => v.length, (w) => w)], extent(words, (w) => w.length), bin()([1, 2, 3, 10]).length];`,
  ),
  'd3-scale': use(
    `import { scaleLinear, scaleOrdinal, scaleTime } from 'd3-scale';`,
    `const ordinal = scaleOrdinal().domain(words).range(['a', 'b']); return [words.map((w) => ordinal(w)), scaleLinear([0, 10], [0, 1])(4), scaleTime().domain([0, 1e9]).ticks(3).length];`,
  ),
  'date-fns': use(
    `import { addDays, format, formatDistance, parseISO } from 'date-fns';`,
    `return [addDays(parseISO('2026-01-31T00:00:00Z'), 1).toISOString(), formatDistance(0, 1e8), format(new Date(2026, 0, 1), "yyyy 'constructor'")];`,
  ),
  dayjs: use(
    `import dayjs from 'dayjs'; import utc from 'dayjs/plugin/utc'; import relative from 'dayjs/plugin/relativeTime';`,
    `dayjs.extend(utc); dayjs.extend(relative); return [dayjs.utc('2026-01-31').add(1, 'month').format('YYYY-MM-DD'), dayjs(0).from(dayjs(1e8)), dayjs(words[0]).isValid()];`,
  ),
  'decimal.js': use(
    `import { Decimal } from 'decimal.js';`,
    `return [new Decimal(2).sqrt().toString(), new Decimal('0.1').plus('0.2').toString()];`,
  ),
  deepmerge: use(
    `import deepmerge from 'deepmerge';`,
    `return Object.entries(deepmerge(record, { constructor: { a: 1 }, plain: [1] }));`,
  ),
  dequal: use(
    `import { dequal } from 'dequal';`,
    `return [dequal(record, { ...record }), dequal(new Map([[words[0], 1]]), new Map([[words[0], 1]])), dequal(record, {})];`,
  ),
  devalue: use(
    `import { parse, stringify } from 'devalue';`,
    `const { __proto__: _, ...rest } = record; return [...parse(stringify(new Map(Object.entries({ constructor: 'a', plain: new Set(words) })))).entries()].map(([k, v]) => [k, [...v]]);`,
  ),
  diff: use(
    `import { diffWords, createPatch } from 'diff';`,
    `return [diffWords(words.join(' '), words.slice(1).join(' ')).length, createPatch('f', words.join('\\n'), 'constructor\\n')];`,
  ),
  'diff-match-patch': use(
    `import DiffMatchPatch from 'diff-match-patch';`,
    `const d = new DiffMatchPatch(); return d.patch_apply(d.patch_make(words.join(' '), 'constructor plain'), words.join(' '));`,
  ),
  'dot-prop': use(
    `import { getProperty, setProperty, hasProperty } from 'dot-prop';`,
    `return [getProperty(record, 'plain'), setProperty({}, 'a.b', words[0]), hasProperty({ a: 1 }, 'constructor')];`,
  ),
  effect: use(
    `import { Effect, Schema } from 'effect';`,
    `return Effect.runPromise(Effect.all(words.map((w) => Effect.succeed(w.length)))).then((lengths) => [lengths, Schema.decodeUnknownSync(Schema.Struct({ plain: Schema.String }))(record)]);`,
  ),
  ejs: use(
    `import ejs from 'ejs';`,
    `return ejs.render('<% for (const w of locals.words) { %><%= w %>;<% } %><%= locals.plain %>', { words, plain: record.plain }, { strict: true });`,
  ),
  'es-toolkit': use(
    `import { groupBy, countBy, merge, camelCase } from 'es-toolkit';`,
    `return [Object.keys(groupBy(words, (w) => w)).length, countBy(words, (w) => w.length), words.map(camelCase), merge({ a: 1 }, { b: 2 })];`,
  ),
  eta: use(
    `import { Eta } from 'eta/core';`,
    `return new Eta().renderString('<% for (const w of it.words) { %><%= w %>,<% } %>', { words });`,
  ),
  eventemitter3: use(
    `import { EventEmitter } from 'eventemitter3';`,
    `const e = new EventEmitter(); const seen = []; for (const w of words) e.once(w, (x) => seen.push(x)); for (const w of words) e.emit(w, w); return [seen, e.eventNames().length];`,
  ),
  'fast-deep-equal': use(
    `import equal from 'fast-deep-equal';`,
    `return [equal([1, { words }], [1, { words: [...words] }]), equal({ a: 1 }, { a: 2 })];`,
  ),
  'fast-json-patch': use(
    `import jsonpatch from 'fast-json-patch';`,
    `return [jsonpatch.compare({ plain: 1 }, { plain: 2, x: 3 }), jsonpatch.applyPatch({ a: [1] }, [{ op: 'add', path: '/a/-', value: words[0] }]).newDocument];`,
  ),
  'fast-xml-parser': use(
    `import { XMLParser, XMLBuilder } from 'fast-xml-parser';`,
    `return [new XMLParser({ ignoreAttributes: false }).parse('<a><b x="1">constructor</b><toStringX>2</toStringX></a>'), new XMLBuilder().build({ a: { words } })];`,
  ),
  fflate: use(
    `import { gzipSync, gunzipSync, strFromU8, strToU8, zipSync, unzipSync } from 'fflate';`,
    `return [strFromU8(gunzipSync(gzipSync(strToU8(words.join(), false), { mtime: 0 }))), Object.keys(unzipSync(zipSync({ 'constructor': strToU8('x') }, { mtime: '1990-01-01' })))];`,
  ),
  flexsearch: use(
    `import { Index } from 'flexsearch';`,
    `const index = new Index(); words.forEach((w, i) => index.add(i, w)); return words.map((w) => index.search(w));`,
  ),
  'fp-ts': use(
    `import { pipe } from 'fp-ts/lib/function.js'; import * as A from 'fp-ts/lib/Array.js'; import * as O from 'fp-ts/lib/Option.js'; import * as R from 'fp-ts/lib/Record.js';`,
    `return [pipe(words, A.map((w) => w.length), A.filter((n) => n > 5)), pipe(O.some(1), O.map((n) => n + 1)), R.lookup('constructor')({})];`,
  ),
  'fraction.js': use(
    `import Fraction from 'fraction.js';`,
    `return new Fraction('1.(3)').add(words.length).toFraction();`,
  ),
  franc: use(
    `import { franc } from 'franc';`,
    `return [franc('Alle Menschen sind frei und gleich an Würde und Rechten geboren'), franc(words.join(' '), { minLength: 1000 })];`,
  ),
  'fuse.js': use(
    `import Fuse from 'fuse.js';`,
    `return new Fuse(words.map((w) => ({ w })), { keys: ['w'] }).search('constructr').map((x) => x.item.w);`,
  ),
  'gpt-tokenizer': use(
    `import { encode, decode } from 'gpt-tokenizer/encoding/r50k_base';`,
    `return [encode(words.join(' ')), decode(encode(words[0]))];`,
  ),
  graphql: use(
    `import { graphql, buildSchema } from 'graphql';`,
    `return graphql({ schema: buildSchema('type Query { constructor: String hasOwnProperty(word: String): String }'), source: '{ constructor hasOwnProperty(word: "toString") }', rootValue: { constructor: () => 'c', hasOwnProperty: ({ word }) => word } });`,
  ),
  'graphql-request': use(
    `import { GraphQLClient, gql } from 'graphql-request';`,
    `return new GraphQLClient('https://a.example/', { fetch: async (url, init) => new Response(JSON.stringify({ data: { sent: JSON.parse(init.body).variables } }), { headers: { 'content-type': 'application/json' } }) }).request(gql\`query q($w: String) { a(w: $w) }\`, { w: words[0] });`,
  ),
  handlebars: use(
    `import Handlebars from 'handlebars/dist/cjs/handlebars.js';`,
    `return Handlebars.compile('{{#each words}}{{this}};{{/each}}{{plain}}{{constructor}}')({ words, plain: record.plain });`,
  ),
  he: use(`import * as he from 'he';`, `return words.map((w) => he.decode(he.encode('<' + w + ' ü>')));`),
  'highlight.js': use(
    `import hljs from 'highlight.js/lib/core'; import js from 'highlight.js/lib/languages/javascript';`,
    `hljs.registerLanguage('javascript', js); return hljs.highlight(words.join('; ') + '; class A { constructor() {} }', { language: 'javascript' }).value;`,
  ),
  hono: use(
    `import { Hono } from 'hono';`,
    `const app = new Hono(); app.get('/:word', (c) => c.json({ word: c.req.param('word'), q: c.req.query('constructor') ?? null })); app.post('/', async (c) => c.text(await c.req.text())); return [await (await app.request('http://a/hasOwnProperty?constructor=1')).json(), await (await app.request('http://a/', { method: 'POST', body: words[0] })).text()];`,
  ),
  htmlparser2: use(
    `import { parseDocument, DomUtils } from 'htmlparser2';`,
    `return DomUtils.getElementsByTagName('p', parseDocument(words.map((w) => '<p ' + w + '=1>' + w).join(''))).map((p) => [DomUtils.textContent(p), Object.keys(p.attribs)]);`,
  ),
  i18next: use(
    `import i18next from 'i18next';`,
    `const i = i18next.createInstance(); await i.init({ lng: 'en', resources: { en: { translation: { constructor: 'C {{x}}', n_one: '{{count}} word', n_other: '{{count}} words' } } } }); return [i.t('constructor', { x: words[0] }), i.t('n', { count: 2 }), i.t('hasOwnProperty')];`,
  ),
  immer: use(
    `import { produce } from 'immer';`,
    `return Object.entries(produce(record, (draft) => { draft.constructor = 1; draft.hasOwnProperty = { a: 2 }; draft.list = words; }));`,
  ),
  immutable: use(
    `import { Map as IMap, fromJS, List } from 'immutable';`,
    `return [IMap(words.map((w) => [w, w.length])).toArray(), List(words).groupBy((w) => w).size, fromJS({ a: [1] }).toJS()];`,
  ),
  ini: use(
    `import { parse, stringify } from 'ini';`,
    `return [parse('constructor=1\\n[toString]\\na=b\\n'), stringify({ a: 1, section: { hasOwnProperty: 'x' } })];`,
  ),
  'intl-messageformat': use(
    `import { IntlMessageFormat } from 'intl-messageformat';`,
    `return new IntlMessageFormat('{n, plural, one {# word} other {# words}} of {constructor}', 'en').format({ n: words.length, constructor: 'x' });`,
  ),
  'io-ts': use(
    `import * as t from 'io-ts';`,
    `return [t.type({ constructor: t.string }).decode(record)._tag, t.record(t.string, t.number).decode(record)._tag];`,
  ),
  jmespath: use(
    `import jmespath from 'jmespath';`,
    `return [jmespath.search({ words }, 'words[?length(@) > \`6\`]'), jmespath.search(record, 'plain')];`,
  ),
  joi: use(
    `import Joi from 'joi';`,
    `return [Joi.object({ constructor: Joi.string(), plain: Joi.string() }).unknown().validate(record).error === undefined, Joi.string().valid(...words).validate('x').error.message];`,
  ),
  jose: use(
    `import { SignJWT, jwtVerify } from 'jose';`,
    `const key = new Uint8Array(32).fill(1); const jwt = await new SignJWT({ constructor: words[0] }).setProtectedHeader({ alg: 'HS256' }).sign(key); return [jwt, (await jwtVerify(jwt, key)).payload.constructor];`,
  ),
  'js-sha256': use(`import { sha256 } from 'js-sha256';`, `return words.map((w) => sha256(w));`),
  'js-yaml': use(
    `import * as yaml from 'js-yaml';`,
    `return [yaml.load('constructor: 1\\nhasOwnProperty: [toString]\\nplain: x\\n'), yaml.dump({ words })];`,
  ),
  'json-logic-js': use(
    `import jsonLogic from 'json-logic-js';`,
    `return [jsonLogic.apply({ var: 'plain' }, record), jsonLogic.apply({ in: [words[0], words] })];`,
  ),
  json5: use(
    `import JSON5 from 'json5/dist/index.mjs';`,
    `return [Object.entries(JSON5.parse("{constructor: 1, hasOwnProperty: 'x', /* c */ plain: [1,],}")), JSON5.stringify({ constructor: 1 })];`,
  ),
  jsonata: use(
    `import jsonata from 'jsonata';`,
    `return [await jsonata('words.$uppercase($)').evaluate({ words }), await jsonata('$sum(n)').evaluate({ n: [1, 2] })];`,
  ),
  'jsonc-parser': use(
    `import { parse, modify, applyEdits } from 'jsonc-parser';`,
    `return [Object.entries(parse('{ "constructor": 1, // c\\n "plain": [] }')), applyEdits('{}', modify('{}', ['constructor'], words[0], {}))];`,
  ),
  'jsonpath-plus': use(
    `import { JSONPath } from 'jsonpath-plus';`,
    `return JSONPath({ path: '$.words[*]', json: { words } });`,
  ),
  jszip: use(
    `import JSZip from 'jszip';`,
    `const zip = new JSZip(); for (const w of words) zip.file(w + '.txt', w); const back = await JSZip.loadAsync(await zip.generateAsync({ type: 'uint8array' })); return [Object.keys(back.files), await back.file('constructor.txt').async('string')];`,
  ),
  klona: use(
    `import { klona } from 'klona/full';`,
    `return Object.entries(klona({ words, map: [...new Map([[1, 2]])], date: new Date(0) }));`,
  ),
  ky: use(
    `import ky from 'ky';`,
    `const api = ky.create({ retry: 0, fetch: async (request) => new Response(JSON.stringify({ url: request.url, body: await request.json() }), { headers: { 'content-type': 'application/json' } }) }); return api.post('https://a.example/x', { json: { word: words[0] }, searchParams: { constructor: '1' } }).json();`,
  ),
  kysely: use(
    `import { Kysely, DummyDriver, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely';`,
    `const db = new Kysely({ dialect: { createAdapter: () => new PostgresAdapter(), createDriver: () => new DummyDriver(), createIntrospector: (d) => new PostgresIntrospector(d), createQueryCompiler: () => new PostgresQueryCompiler() } }); const q = db.selectFrom('t').select(['constructor']).where('hasOwnProperty', '=', words[0]).compile(); return [q.sql, q.parameters];`,
  ),
  'libphonenumber-js': use(
    `import { parsePhoneNumberFromString } from 'libphonenumber-js';`,
    `return [parsePhoneNumberFromString('044 668 18 00', 'CH').formatInternational(), parsePhoneNumberFromString(words[0]) ?? null];`,
  ),
  'linkify-it': use(
    `import { LinkifyIt } from 'linkify-it';`,
    `return new LinkifyIt().match('see constructor.com and https://a.example/hasOwnProperty ' + words.join(' ')).map((m) => m.url);`,
  ),
  liquidjs: use(
    `import { Liquid } from 'liquidjs';`,
    `return new Liquid().parseAndRender('{% for w in words %}{{ w | upcase }};{% endfor %}{{ plain }}', { words, plain: record.plain });`,
  ),
  lodash: use(
    `import _ from 'lodash';`,
    `return [_.countBy(words, (w) => w.length), Object.entries(_.groupBy(words, (w) => 'k' + w)), _.merge({}, { constructor: { a: 1 } }), _.template('<%= d.w %>!', { variable: 'd' })({ w: words[0] }), _.camelCase(words[2])];`,
  ),
  'lodash-es': use(
    `import { countBy, groupBy, sortBy, uniq } from 'lodash-es';`,
    `return [Object.entries(countBy(words)), Object.keys(groupBy(words)).length, sortBy(words), uniq(words)];`,
  ),
  'lru-cache': use(
    `import { LRUCache } from 'lru-cache';`,
    `const cache = new LRUCache({ max: 3 }); for (const w of words) cache.set(w, w.length); return [...cache.entries()];`,
  ),
  lunr: use(
    `import lunr from 'lunr';`,
    `const index = lunr(function () { this.ref('id'); this.field('w'); words.forEach((w, id) => this.add({ id, w })); }); return index.search('constructor').map((x) => x.ref);`,
  ),
  luxon: use(
    `import { DateTime, Duration } from 'luxon';`,
    `return [DateTime.fromISO('2026-01-31T10:00', { zone: 'Europe/Zurich' }).plus({ months: 1 }).toISO(), Duration.fromObject({ minutes: 90 }).shiftTo('hours').toObject(), DateTime.fromISO(words[0]).isValid];`,
  ),
  'markdown-it': use(
    `import MarkdownIt from 'markdown-it';`,
    `return new MarkdownIt().render('# ' + words.join(' ') + '\\n\\n[constructor]: https://a.example\\n[constructor] **b**');`,
  ),
  marked: use(
    `import { marked } from 'marked';`,
    `return marked.parse('# ' + words.join(' ') + '\\n\\n[constructor]: https://a.example\\n\\n[constructor] | \`x\`');`,
  ),
  mathjs: use(
    `import { evaluate, matrix, multiply } from 'mathjs/number';`,
    `return [evaluate('sqrt(16) + 2 * x', { x: words.length }), evaluate('sum(1, 2, 3)')];`,
  ),
  minimatch: use(
    `import { minimatch } from 'minimatch';`,
    `return words.map((w) => minimatch(w, '{con*,*Property}'));`,
  ),
  minisearch: use(
    `import MiniSearch from 'minisearch';`,
    `const m = new MiniSearch({ fields: ['w'], storeFields: ['w'] }); m.addAll(words.map((w, id) => ({ id, w }))); return m.search('constructor hasOwnProperty').map((x) => x.w);`,
  ),
  mitt: use(
    `import mitt from 'mitt';`,
    `const e = mitt(); const seen = []; for (const w of words) e.on(w, (x) => seen.push(x)); for (const w of words) e.emit(w, w); return seen;`,
  ),
  'ml-matrix': use(
    `import { Matrix, inverse } from 'ml-matrix';`,
    `return inverse(new Matrix([[2, 0], [0, words.length]])).to2DArray();`,
  ),
  mobx: use(
    `import { observable, autorun, runInAction } from 'mobx';`,
    `const s = observable({ list: [], byWord: new Map() }); const seen = []; autorun(() => seen.push(s.list.length)); runInAction(() => { s.list = words; }); return seen;`,
  ),
  moment: use(
    `import moment from 'moment';`,
    `return [moment.utc('2026-01-31').add(1, 'month').format('LLLL'), moment.utc(0).from(1e8), moment(words[0], 'YYYY', true).isValid()];`,
  ),
  ms: use(`import ms from 'ms';`, `return [ms('2 days'), ms(60000), ms('constructor') ?? null];`),
  mustache: use(
    `import Mustache from 'mustache';`,
    `return Mustache.render('{{#words}}{{.}};{{/words}}{{plain}}{{hasOwnProperty}}', { words, ...record, hasOwnProperty: 'h' });`,
  ),
  nanoid: use(
    `import { customAlphabet, nanoid } from 'nanoid';`,
    `return [nanoid().length, customAlphabet('a', 5)()];`,
  ),
  nunjucks: use(
    `import nunjucks from 'nunjucks/browser/nunjucks.js';`,
    `return nunjucks.renderString('{% for w in words %}{{ w | upper }};{% endfor %}{{ plain }}', { words, plain: record.plain });`,
  ),
  ofetch: use(
    `import { createFetch } from 'ofetch';`,
    `return createFetch({ fetch: async (url, init) => new Response(JSON.stringify({ url: String(url), body: init.body }), { headers: { 'content-type': 'application/json' } }), Headers, AbortController })('https://a.example/', { method: 'POST', body: { word: words[0] }, query: { constructor: 1 } });`,
  ),
  'p-limit': use(
    `import pLimit from 'p-limit';`,
    `const limit = pLimit(2); return Promise.all(words.map((w) => limit(async () => w.length)));`,
  ),
  'p-queue': use(
    `import PQueue from 'p-queue';`,
    `const queue = new PQueue({ concurrency: 2 }); return queue.addAll(words.map((w) => async () => w.length));`,
  ),
  'p-retry': use(
    `import pRetry from 'p-retry';`,
    `let n = 0; return pRetry(async () => { n += 1; if (n < 3) throw new Error('again'); return n; }, { minTimeout: 1, maxTimeout: 1 });`,
  ),
  pako: use(
    `import * as pako from 'pako';`,
    `return pako.inflate(pako.deflate(new TextEncoder().encode(words.join())), { toText: true, to: 'string' }).toString();`,
  ),
  papaparse: use(
    `import Papa from 'papaparse';`,
    `const parsed = Papa.parse('constructor,hasOwnProperty,plain\\n1,2,3\\n' + words.slice(0, 3).join(), { header: true }); return [parsed.data.map((row) => Object.entries(row)), Papa.unparse([{ constructor: 1, a: 'x,y' }])];`,
  ),
  parse5: use(
    `import { parseFragment, serialize } from 'parse5';`,
    `return serialize(parseFragment(words.map((w) => '<b ' + w + '=1>' + w).join('')));`,
  ),
  'path-to-regexp': use(
    `import { compile, match } from 'path-to-regexp';`,
    `return [Object.entries(match('/:constructor/:x')('/' + words[2] + '/b').params), compile('/:x')({ x: words[1] })];`,
  ),
  picomatch: use(
    `import picomatch from 'picomatch/posix';`,
    `return words.map((w) => picomatch('{con*,*Property}')(w));`,
  ),
  pluralize: use(
    `import pluralize from 'pluralize';`,
    `return words.map((w) => [pluralize(w), pluralize.singular(w), pluralize(w, 2, true)]);`,
  ),
  'pretty-bytes': use(
    `import prettyBytes from 'pretty-bytes';`,
    `return [prettyBytes(1337), prettyBytes(1e9, { locale: 'de' })];`,
  ),
  qs: use(
    `import qs from 'qs';`,
    `return [Object.entries(qs.parse('constructor=1&a[b]=2&hasOwnProperty=3', { allowPrototypes: true })), qs.stringify({ words, constructor: { x: 1 } })];`,
  ),
  'query-string': use(
    `import queryString from 'query-string';`,
    `return [Object.entries(queryString.parse('constructor=1&hasOwnProperty=2')), queryString.stringify({ constructor: words[0], a: [1, 2] })];`,
  ),
  radash: use(
    `import { group, counting, parallel } from 'radash';`,
    `return [Object.keys(group(['x', 'y', 'x'], (w) => w)), counting([1, 2, 1], (n) => n), await parallel(2, words, async (w) => w.length)];`,
  ),
  ramda: use(
    `import * as R from 'ramda';`,
    `return [Object.entries(R.countBy(R.toLower, words)), R.path(['a', 'b'], { a: { b: 1 } }), Object.entries(R.mergeDeepRight(record, { constructor: { x: 1 } })), R.groupBy(R.length, ['a', 'bb']), Object.entries(R.assoc('constructor', 1, {}))];`,
  ),
  redux: use(
    `import { createStore, combineReducers } from 'redux';`,
    `const store = createStore(combineReducers({ words: (s = [], a) => (a.type === 'add' ? [...s, a.word] : s) })); for (const word of words) store.dispatch({ type: 'add', word }); return store.getState();`,
  ),
  remark: use(
    `import { remark } from 'remark';`,
    `return String(await remark().process('# ' + words.join(' ') + '\\n\\n[constructor]: https://a.example\\n\\n* [constructor]'));`,
  ),
  remeda: use(
    `import * as R from 'remeda';`,
    `return [R.pipe(words, R.unique(), R.map((w) => w.length)), R.countBy(words, (w) => w.length), R.omit({ a: 1, b: 2 }, ['a'])];`,
  ),
  rrule: use(
    `import { RRule } from 'rrule';`,
    `return [RRule.fromString('DTSTART:20260101T000000Z\\nRRULE:FREQ=WEEKLY;COUNT=3;BYDAY=MO').all().map(String).length, RRule.fromText('every 2 weeks').toString()];`,
  ),
  rxjs: use(
    `import { from, groupBy, map, mergeMap, toArray, lastValueFrom, timer, take } from 'rxjs';`,
    `return [await lastValueFrom(from(words).pipe(groupBy((w) => w), mergeMap((g) => g.pipe(toArray())), map((list) => list.length), toArray())), await lastValueFrom(timer(0, 1).pipe(take(3)))];`,
  ),
  'sanitize-html': use(
    `import sanitize from 'sanitize-html';`,
    `return sanitize('<b constructor=1 onclick=x>' + words.join('<script>x</script>') + '</b><a href="javascript:1">a</a>');`,
  ),
  seedrandom: use(
    `import seedrandom from 'seedrandom';`,
    `const random = seedrandom(words.join()); return [random(), random.int32()];`,
  ),
  semver: use(
    `import semver from 'semver';`,
    `return [semver.satisfies('1.2.3', '^1.0.0'), semver.valid(words[0]), semver.sort(['2.0.0', '1.0.0'])];`,
  ),
  'simple-statistics': use(
    `import { mean, standardDeviation, linearRegression } from 'simple-statistics';`,
    `const n = words.map((w) => w.length); return [mean(n), standardDeviation(n), linearRegression([[0, 1], [1, 3]])];`,
  ),
  slugify: use(
    `import slugify from 'slugify';`,
    `return words.map((w) => slugify(w + ' Zürich & Co', { lower: true }));`,
  ),
  'smol-toml': use(
    `import { parse, stringify } from 'smol-toml';`,
    `return [Object.entries(parse('constructor = 1\\nplain = "x"\\n[toString]\\na = [1]\\n')), stringify({ words })];`,
  ),
  'sql-formatter': use(
    `import { format } from 'sql-formatter';`,
    `return format('select constructor, hasOwnProperty from toString where plain = 1');`,
  ),
  'string-similarity': use(
    `import similarity from 'string-similarity';`,
    `return similarity.findBestMatch('constructr', words).bestMatch;`,
  ),
  superjson: use(
    `import superjson from 'superjson';`,
    `const back = superjson.parse(superjson.stringify({ date: new Date(0), map: new Map([['constructor', 1]]), words })); return [back.date.getTime(), [...back.map], back.words];`,
  ),
  superstruct: use(
    `import { assert, is, object, record as recordOf, string } from 'superstruct';`,
    `return [is(record, recordOf(string(), string())), is({ constructor: 1 }, object({ constructor: string() }))];`,
  ),
  tweetnacl: use(
    `import nacl from 'tweetnacl';`,
    `const key = nacl.sign.keyPair.fromSeed(new Uint8Array(32)); const text = new TextEncoder().encode(words.join()); const signature = nacl.sign.detached(text, key.secretKey); return [nacl.sign.detached.verify(text, signature, key.publicKey), nacl.randomBytes(8).length];`,
  ),
  underscore: use(
    `import _ from 'underscore';`,
    `return [Object.entries(_.countBy(words)), _.template('<%= d.w %>', { variable: 'd' })({ w: words[0] }), _.keys(_.groupBy(words)).length, _.isEqual(record, { ...record })];`,
  ),
  uuid: use(
    `import { v4, v5, validate } from 'uuid';`,
    `return [validate(v4()), v5(words[0], v5.URL), words.map(validate)];`,
  ),
  valibot: use(
    `import * as v from 'valibot';`,
    `return [Object.entries(v.parse(v.record(v.string(), v.string()), { plain: 'x', a: 'y' })), v.safeParse(v.object({ constructor: v.number() }), record).success];`,
  ),
  validator: use(
    `import validator from 'validator';`,
    `return [validator.isEmail('a@b.ch'), words.map((w) => validator.isAlpha(w)), validator.escape('<b>')];`,
  ),
  wretch: use(
    `import wretch from 'wretch';`,
    `return wretch('https://a.example').fetchPolyfill(async (url, init) => new Response(JSON.stringify({ url, body: init.body }), { headers: { 'content-type': 'application/json' } })).url('/x').post({ word: words[0] }).json();`,
  ),
  xlsx: use(
    `import * as XLSX from 'xlsx';`,
    `const book = XLSX.utils.book_new(); XLSX.utils.book_append_sheet(book, XLSX.utils.json_to_sheet([{ constructor: 1, plain: 'x' }, { constructor: words[0] }]), 'toString'); const back = XLSX.read(XLSX.write(book, { type: 'array', bookType: 'xlsx' }), { type: 'array' }); return [back.SheetNames, XLSX.utils.sheet_to_csv(back.Sheets.toString)];`,
  ),
  xml2js: use(
    `import { parseStringPromise, Builder } from 'xml2js';`,
    `return [JSON.stringify(await parseStringPromise('<a x="1"><b>constructor</b><plain/></a>')), new Builder().buildObject({ a: { b: words } })];`,
  ),
  xstate: use(
    `import { createActor, createMachine } from 'xstate';`,
    `const actor = createActor(createMachine({ initial: 'off', states: { off: { on: { constructor: 'on' } }, on: {} } })); actor.start(); actor.send({ type: 'constructor' }); return actor.getSnapshot().value;`,
  ),
  yaml: use(
    `import { parse, stringify } from 'yaml';`,
    `return [Object.entries(parse('constructor: 1\\nhasOwnProperty: [toString]\\n')), stringify({ words })];`,
  ),
  yup: use(
    `import * as yup from 'yup';`,
    `return [await yup.object({ plain: yup.string().required() }).isValid({ plain: record.plain }), await yup.string().oneOf(words).isValid('x'), yup.object({ plain: yup.string() }).cast({ plain: 1 })];`,
  ),
  zod: use(
    `import * as z from 'zod';`,
    `return [Object.entries(z.record(z.string(), z.string()).parse(record)), z.object({ constructor: z.string(), plain: z.string() }).safeParse(record).success, z.enum(['constructor', 'plain']).parse(words[0]), z.toJSONSchema(z.object({ a: z.number() }))];`,
  ),
  zustand: use(
    `import { createStore } from 'zustand/vanilla';`,
    `const store = createStore((set) => ({ words: [], add: (w) => set((s) => ({ words: [...s.words, w] })) })); words.forEach((w) => store.getState().add(w)); return store.getState().words;`,
  ),
};
