/** Runs cases of Test262 in plain Node. Each has a context of its own, because cases change what all programs share. */
import { constants, createContext, runInContext } from 'node:vm';
import { serveCases } from './serve-cases.ts';

serveCases((source, globals) => {
  const context = createContext(constants.DONT_CONTEXTIFY);
  Object.assign(context, { setTimeout, clearTimeout, ...globals });
  runInContext(source, context);
});
