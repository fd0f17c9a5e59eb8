/** Starts the embedded PostgreSQL, says where, and holds it until it is killed. Run by embedded.test.ts. */
import { startEmbedded } from '../../../db/postgres/embedded.ts';

const postgres = await startEmbedded({ dataDir: process.argv[2] ?? '' });
console.log(JSON.stringify({ url: postgres.url, pid: postgres.pid }));
