import { build } from 'esbuild';
import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
const entries = process.argv.slice(3);
const t=performance.now();
const out = await build({ entryPoints: Object.fromEntries(entries.map(e=>[e.replace(/\W/g,'_'),e])), bundle:true, splitting:true, platform:'node', format:'esm', target:'node26', outdir: process.argv[2], outExtension:{'.js':'.mjs'}, keepNames:false,
 banner:{js:"import{createRequire as __c}from'node:module';const require=__c(import.meta.url);"},
 plugins:[{name:'url',setup(b){ b.onLoad({filter:/\.(ts|js|mjs|cjs)$/}, async ({path})=>{ let s=await readFile(path,'utf8'); const u=JSON.stringify(pathToFileURL(path).href); s=s.replaceAll('import.meta.url',u).replaceAll('import.meta.dirname',JSON.stringify(path.replace(/\/[^/]*$/,''))).replaceAll('import.meta.filename',JSON.stringify(path)); if(/\bcjs$/.test(path)||/__dirname|__filename/.test(s)&&!/\.ts$/.test(path)) s=s.replaceAll(/\b__dirname\b/g,JSON.stringify(path.replace(/\/[^/]*$/,''))).replaceAll(/\b__filename\b/g,JSON.stringify(path)); return {contents:s, loader: path.endsWith('.ts')?'ts':'js'};});}}], logLevel:'warning', metafile:true });
console.log('built in', performance.now()-t, Object.entries(out.metafile.outputs).map(([k,v])=>k+' '+v.bytes).join('\n'));
