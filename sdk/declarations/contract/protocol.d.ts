/**
 * Declares every hook, event, registered surface, host call and control message exactly once. Types, validation, grants,
 * limits, `globals.d.ts`, the reference, catalog sentences and metric labels are derived from these rows.
 *
 * To add a host call: a row here, a handler in `supervisor/host/` and an example in `host-examples.ts`.
 * To add a hook: a row here and its call site.
 */
import { z } from 'zod';
import type { Reach } from './rows.js';
/**
 * The fields of every hook context. The supervisor sets them; the child adds `signal`, which aborts at the deadline or when
 * the caller gives up.
 */
export declare const hookBase: z.ZodObject<{
    hook: z.ZodString;
    invocationId: z.ZodString;
    settings: z.ZodRecord<z.ZodString, z.ZodString>;
    agent: z.ZodObject<{
        id: z.ZodString;
        name: z.ZodString;
    }, z.core.$strip>;
    session: z.ZodObject<{
        id: z.ZodString;
        channelId: z.ZodNullable<z.ZodString>;
    }, z.core.$strip>;
    trigger: z.ZodEnum<{
        agent: "agent";
        channel: "channel";
        schedule: "schedule";
        system: "system";
        tool: "tool";
        user: "user";
    }>;
    at: z.ZodISODateTime;
    deadlineAt: z.ZodISODateTime;
    repeated: z.ZodOptional<z.ZodLiteral<true>>;
}, z.core.$strip>;
export declare const hooks: {
    readonly 'middleware.systemPrompt': {
        readonly doc: 'Runs before every model call. Returns the system prompt to use instead.';
        readonly since: '0.1.0';
        readonly reach: 'Reads and changes the system prompt of your agents before every model call.';
        readonly risk: 'medium';
        readonly context: z.ZodObject<{
            systemPrompt: z.ZodString;
            model: z.ZodDefault<z.ZodString>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'replace';
            readonly field: 'systemPrompt';
            readonly schema: z.ZodString;
        };
        readonly cancellable: false;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly example: {
            readonly context: {
                readonly systemPrompt: 'Be brief.';
                readonly model: 'any';
            };
            readonly answer: 'Be brief. Use metric units.';
        };
    };
    readonly 'compaction.summarize': {
        readonly doc: 'Summarizes a conversation instead of the built-in summarizer. If the summary is blank or oversized, the built-in summarizer runs.';
        readonly since: '0.1.0';
        readonly reach: 'Reads whole conversations and writes the summaries that replace them.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            messages: z.ZodArray<z.ZodObject<{
                id: z.ZodString;
                role: z.ZodEnum<{
                    assistant: "assistant";
                    notice: "notice";
                    system: "system";
                    tool: "tool";
                    user: "user";
                }>;
                text: z.ZodString;
                at: z.ZodISODateTime;
                data: z.ZodOptional<z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>>;
            }, z.core.$strip>>;
            focus: z.ZodNullable<z.ZodString>;
            maxChars: z.ZodNumber;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'replace';
            readonly field: 'summary';
            readonly schema: z.ZodString;
        };
        readonly cancellable: false;
        readonly onFailure: 'builtin';
        readonly budgetMs: number;
        readonly example: {
            readonly context: {
                readonly messages: readonly [];
                readonly focus: null;
                readonly maxChars: 65536;
            };
            readonly answer: 'They said hello.';
        };
    };
    readonly 'middleware.inboundMessage': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs when a message for an agent arrives, before the agent receives it. Also for a summary that another plugin made of a conversation, with `from: "summary"`.';
        readonly reach: 'Reads, changes and can cancel every message to your agents.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            message: z.ZodObject<{
                id: z.ZodString;
                from: z.ZodString;
                text: z.ZodString;
                attachments: z.ZodDefault<z.ZodArray<z.ZodObject<{
                    name: z.ZodString;
                    mediaType: z.ZodString;
                    mediaId: z.ZodOptional<z.ZodString>;
                    url: z.ZodOptional<z.ZodURL>;
                }, z.core.$strip>>>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["message.text", "message.attachments"];
        };
        readonly example: {
            readonly context: {
                readonly message: {
                    readonly id: 'm1';
                    readonly from: 'ann';
                    readonly text: 'hello';
                    readonly attachments: readonly [];
                };
            };
            readonly answer: {
                readonly message: {
                    readonly text: 'hello!';
                };
            };
        };
    };
    readonly 'middleware.outboundMessage': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs when an agent has written a message, before it is sent.';
        readonly reach: 'Reads, changes and can cancel every message from your agents.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            message: z.ZodObject<{
                id: z.ZodString;
                text: z.ZodString;
                attachments: z.ZodDefault<z.ZodArray<z.ZodObject<{
                    name: z.ZodString;
                    mediaType: z.ZodString;
                    mediaId: z.ZodOptional<z.ZodString>;
                    url: z.ZodOptional<z.ZodURL>;
                }, z.core.$strip>>>;
            }, z.core.$strip>;
            target: z.ZodString;
            partial: z.ZodOptional<z.ZodObject<{
                before: z.ZodString;
                done: z.ZodBoolean;
            }, z.core.$strip>>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["message.text", "message.attachments"];
        };
        readonly streams: true;
        readonly example: {
            readonly context: {
                readonly message: {
                    readonly id: 'm2';
                    readonly text: 'hi';
                    readonly attachments: readonly [];
                };
                readonly target: 'ann';
            };
            readonly answer: {
                readonly message: {
                    readonly text: 'Hi.';
                };
            };
        };
    };
    readonly 'middleware.agentMessage': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs when one agent sends a message to another. `toSessionId` is the session that gets it.';
        readonly reach: 'Reads, changes and can cancel messages between your agents.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            fromAgentId: z.ZodString;
            toAgentId: z.ZodString;
            message: z.ZodObject<{
                text: z.ZodString;
                attachments: z.ZodOptional<z.ZodArray<z.ZodObject<{
                    name: z.ZodString;
                    mediaType: z.ZodString;
                    mediaId: z.ZodOptional<z.ZodString>;
                    url: z.ZodOptional<z.ZodURL>;
                }, z.core.$strip>>>;
            }, z.core.$strip>;
            toSessionId: z.ZodDefault<z.ZodNullable<z.ZodString>>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["message.text"];
        };
        readonly example: {
            readonly context: {
                readonly fromAgentId: 'a1';
                readonly toAgentId: 'a2';
                readonly message: {
                    readonly text: 'ping';
                };
                readonly toSessionId: 's2';
            };
            readonly answer: {
                readonly message: {
                    readonly text: 'ping?';
                };
            };
        };
    };
    readonly 'middleware.toolCall': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before an agent’s call of any tool: a plugin’s, the host’s or the runtime’s own. If it is cancelled, the agent reads the reason as the result.';
        readonly reach: 'Reads, changes and can cancel every tool call of your agents.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            call: z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
                arguments: z.ZodCustom<z.JSONType, z.JSONType>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["call.arguments"];
        };
        readonly example: {
            readonly context: {
                readonly call: {
                    id: string;
                    name: string;
                    arguments: {
                        text: string;
                    };
                };
            };
            readonly answer: {
                readonly call: {
                    readonly arguments: {
                        readonly text: 'Buy oat milk';
                    };
                };
            };
        };
    };
    readonly 'middleware.toolResult': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs when a tool has answered, or another plugin has cancelled the call, before the agent receives the result. If it is cancelled, the agent reads the reason instead. `call` is as the tool received it.';
        readonly reach: 'Reads, changes and can withhold the result of every tool call of your agents.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            call: z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
                arguments: z.ZodCustom<z.JSONType, z.JSONType>;
            }, z.core.$strip>;
            result: z.ZodObject<{
                content: z.ZodArray<z.ZodDiscriminatedUnion<[z.ZodObject<{
                    type: z.ZodLiteral<"text">;
                    text: z.ZodString;
                }, z.core.$strip>, z.ZodObject<{
                    type: z.ZodLiteral<"image">;
                    data: z.ZodString;
                    mimeType: z.ZodString;
                }, z.core.$strip>, z.ZodObject<{
                    type: z.ZodLiteral<"json">;
                    json: z.ZodCustom<z.JSONType, z.JSONType>;
                }, z.core.$strip>], "type">>;
                isError: z.ZodBoolean;
            }, z.core.$strip>;
            durationMs: z.ZodNumber;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["result.content", "result.isError"];
        };
        readonly example: {
            readonly context: {
                readonly call: {
                    id: string;
                    name: string;
                    arguments: {
                        text: string;
                    };
                };
                readonly result: {
                    readonly content: readonly [{
                        readonly type: 'text';
                        readonly text: 'key=1';
                    }];
                    readonly isError: false;
                };
                readonly durationMs: 3;
            };
            readonly answer: {
                readonly result: {
                    readonly content: readonly [{
                        readonly type: 'text';
                        readonly text: 'key=[redacted]';
                    }];
                };
            };
        };
    };
    readonly 'middleware.todoCreate': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before a to-do is created.';
        readonly reach: 'Reads, changes and can cancel new to-dos.';
        readonly risk: 'low';
        readonly context: z.ZodObject<{
            todo: z.ZodObject<{
                title: z.ZodString;
                dueAt: z.ZodNullable<z.ZodISODateTime>;
                notes: z.ZodDefault<z.ZodString>;
                assigneeAgentId: z.ZodNullable<z.ZodString>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["todo.title", "todo.notes", "todo.dueAt"];
        };
        readonly example: {
            readonly context: {
                readonly todo: {
                    readonly title: 'Buy milk';
                    readonly notes: '';
                    readonly dueAt: null;
                    readonly assigneeAgentId: null;
                };
            };
            readonly answer: {
                readonly todo: {
                    readonly title: 'Buy oat milk';
                };
            };
        };
    };
    readonly 'middleware.todoUpdate': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before a to-do is changed. `changes` has only the fields that change; a returned `changes` replaces it completely.';
        readonly reach: 'Reads, changes and can cancel edits of to-dos.';
        readonly risk: 'low';
        readonly context: z.ZodObject<{
            before: z.ZodObject<{
                title: z.ZodString;
                dueAt: z.ZodNullable<z.ZodISODateTime>;
                notes: z.ZodDefault<z.ZodString>;
                assigneeAgentId: z.ZodNullable<z.ZodString>;
                id: z.ZodString;
                done: z.ZodBoolean;
            }, z.core.$strip>;
            changes: z.ZodObject<{
                title: z.ZodOptional<z.ZodString>;
                notes: z.ZodOptional<z.ZodString>;
                dueAt: z.ZodOptional<z.ZodNullable<z.ZodISODateTime>>;
                assigneeAgentId: z.ZodOptional<z.ZodNullable<z.ZodString>>;
                done: z.ZodOptional<z.ZodBoolean>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["changes"];
        };
        readonly example: {
            readonly context: {
                readonly before: {
                    id: string;
                    title: string;
                    notes: string;
                    dueAt: null;
                    assigneeAgentId: null;
                    done: boolean;
                };
                readonly changes: {
                    readonly notes: 'two';
                };
            };
            readonly answer: {
                readonly changes: {
                    readonly notes: 'three';
                };
            };
        };
    };
    readonly 'middleware.todoComplete': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before a to-do is marked as done.';
        readonly reach: 'Reads to-dos when they are completed and can cancel that.';
        readonly risk: 'low';
        readonly context: z.ZodObject<{
            todo: z.ZodObject<{
                title: z.ZodString;
                dueAt: z.ZodNullable<z.ZodISODateTime>;
                notes: z.ZodDefault<z.ZodString>;
                assigneeAgentId: z.ZodNullable<z.ZodString>;
                id: z.ZodString;
                done: z.ZodBoolean;
            }, z.core.$strip>;
            by: z.ZodString;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly [];
        };
        readonly example: {
            readonly context: {
                readonly todo: {
                    id: string;
                    title: string;
                    notes: string;
                    dueAt: null;
                    assigneeAgentId: null;
                    done: boolean;
                };
                readonly by: 'a1';
            };
            readonly answer: undefined;
        };
    };
    readonly 'middleware.todoDelete': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before a to-do is deleted.';
        readonly reach: 'Reads to-dos when they are deleted and can cancel that.';
        readonly risk: 'low';
        readonly context: z.ZodObject<{
            todo: z.ZodObject<{
                title: z.ZodString;
                dueAt: z.ZodNullable<z.ZodISODateTime>;
                notes: z.ZodDefault<z.ZodString>;
                assigneeAgentId: z.ZodNullable<z.ZodString>;
                id: z.ZodString;
                done: z.ZodBoolean;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly [];
        };
        readonly example: {
            readonly context: {
                readonly todo: {
                    id: string;
                    title: string;
                    notes: string;
                    dueAt: null;
                    assigneeAgentId: null;
                    done: boolean;
                };
            };
            readonly answer: undefined;
        };
    };
    readonly 'middleware.notifySchedule': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before a notification is scheduled. `notifyId` is the `notify.id` of its deliveries.';
        readonly reach: 'Reads, changes and can cancel notifications when your agents schedule them.';
        readonly risk: 'medium';
        readonly context: z.ZodObject<{
            notifyId: z.ZodDefault<z.ZodNullable<z.ZodString>>;
            notify: z.ZodObject<{
                text: z.ZodString;
                at: z.ZodISODateTime;
                repeat: z.ZodNullable<z.ZodString>;
                zone: z.ZodDefault<z.ZodNullable<z.ZodString>>;
                to: z.ZodString;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["notify.text", "notify.at"];
        };
        readonly example: {
            readonly context: {
                readonly notifyId: 'n1';
                readonly notify: {
                    text: string;
                    at: string;
                    repeat: null;
                    zone: null;
                    to: string;
                };
            };
            readonly answer: {
                readonly notify: {
                    readonly text: 'Stand-up in five';
                };
            };
        };
    };
    readonly 'middleware.notifyDeliver': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before a scheduled notification is delivered.';
        readonly reach: 'Reads, changes and can cancel notifications when they are delivered.';
        readonly risk: 'medium';
        readonly context: z.ZodObject<{
            notify: z.ZodObject<{
                id: z.ZodString;
                text: z.ZodString;
                to: z.ZodString;
                at: z.ZodDefault<z.ZodNullable<z.ZodISODateTime>>;
                repeat: z.ZodDefault<z.ZodNullable<z.ZodString>>;
                zone: z.ZodDefault<z.ZodNullable<z.ZodString>>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["notify.text"];
        };
        readonly example: {
            readonly context: {
                readonly notify: {
                    readonly at: string;
                    readonly repeat: null;
                    readonly zone: null;
                    readonly to: string;
                    readonly id: 'n1';
                    readonly text: 'Stand-up';
                };
            };
            readonly answer: {
                readonly notify: {
                    readonly text: 'Stand-up now';
                };
            };
        };
    };
    readonly 'middleware.sshCommand': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly budgetMs: number;
        readonly onFailure: 'cancel';
        readonly doc: 'Runs before a command runs over SSH. All three SSH hooks of a command have its `commandId` and host. If the handler fails or times out, the command is cancelled.';
        readonly reach: 'Reads, changes and can cancel commands that your agents run over SSH.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            commandId: z.ZodDefault<z.ZodNullable<z.ZodString>>;
            host: z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
            }, z.core.$strip>;
            command: z.ZodString;
            cwd: z.ZodNullable<z.ZodString>;
            env: z.ZodRecord<z.ZodString, z.ZodString>;
            timeoutMs: z.ZodNumber;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["command", "cwd", "env"];
        };
        readonly example: {
            readonly context: {
                readonly commandId: 'c1';
                readonly host: {
                    id: string;
                    name: string;
                };
                readonly command: 'ls';
                readonly cwd: null;
                readonly env: {};
                readonly timeoutMs: 1000;
            };
            readonly answer: {
                readonly command: 'ls -l';
            };
        };
    };
    readonly 'middleware.sshCommandInput': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly budgetMs: number;
        readonly onFailure: 'cancel';
        readonly doc: 'Runs before input is sent to a running SSH command. If the handler fails or times out, the input is cancelled.';
        readonly reach: 'Reads, changes and can cancel input that your agents send to SSH commands.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            commandId: z.ZodString;
            host: z.ZodDefault<z.ZodNullable<z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
            }, z.core.$strip>>>;
            data: z.ZodString;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["data"];
        };
        readonly example: {
            readonly context: {
                readonly commandId: 'c1';
                readonly host: {
                    id: string;
                    name: string;
                };
                readonly data: 'yes\n';
            };
            readonly answer: {
                readonly data: 'no\n';
            };
        };
    };
    readonly 'middleware.sshCommandOutput': {
        readonly since: '0.1.0';
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly cancellable: false;
        readonly doc: 'Runs when an SSH command has exited, before the agent receives its output.';
        readonly reach: 'Reads and changes the output of SSH commands that your agents run.';
        readonly risk: 'high';
        readonly context: z.ZodObject<{
            commandId: z.ZodDefault<z.ZodNullable<z.ZodString>>;
            host: z.ZodDefault<z.ZodNullable<z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
            }, z.core.$strip>>>;
            command: z.ZodString;
            exitCode: z.ZodNullable<z.ZodNumber>;
            stdout: z.ZodString;
            stderr: z.ZodString;
            durationMs: z.ZodNumber;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly ["stdout", "stderr"];
        };
        readonly example: {
            readonly context: {
                readonly commandId: 'c1';
                readonly host: {
                    id: string;
                    name: string;
                };
                readonly command: 'ls';
                readonly exitCode: 0;
                readonly stdout: 'key=1';
                readonly stderr: '';
                readonly durationMs: 3;
            };
            readonly answer: {
                readonly stdout: 'key=[redacted]';
            };
        };
    };
    readonly 'middleware.sessionClear': {
        readonly since: '0.1.0';
        readonly cancellable: true;
        readonly onFailure: 'skip';
        readonly budgetMs: number;
        readonly doc: 'Runs before a session is cleared.';
        readonly reach: 'Sees when a session is cleared and can cancel that.';
        readonly risk: 'low';
        readonly context: z.ZodObject<{
            reason: z.ZodString;
            messageCount: z.ZodNumber;
            by: z.ZodString;
        }, z.core.$strip>;
        readonly answers: {
            readonly kind: 'patch';
            readonly patchable: readonly [];
        };
        readonly example: {
            readonly context: {
                readonly reason: 'fresh start';
                readonly messageCount: 4;
                readonly by: 'user';
            };
            readonly answer: undefined;
        };
    };
};
export type HookName = keyof typeof hooks;
export declare const events: {
    readonly pluginInstalled: {
        readonly since: '0.1.0';
        readonly risk: 'low';
        readonly budgetMs: number;
        readonly attempts: 8;
        readonly doc: 'The plugin was installed, or the user asked to run its setup again.';
        readonly reach: 'Receives an event when it is installed.';
        readonly data: z.ZodObject<{
            reason: z.ZodEnum<{
                install: "install";
                "rerun-setup": "rerun-setup";
            }>;
        }, z.core.$strip>;
        readonly example: {
            readonly reason: 'install';
        };
    };
    readonly pluginUninstalled: {
        readonly since: '0.1.0';
        readonly risk: 'low';
        readonly budgetMs: number;
        readonly attempts: 3;
        readonly doc: 'The plugin is being uninstalled. Runs before the removal, which proceeds after three failed attempts.';
        readonly reach: 'Receives an event when it is uninstalled.';
        readonly data: z.ZodObject<{
            by: z.ZodString;
        }, z.core.$strip>;
        readonly example: {
            readonly by: 'user';
        };
    };
    readonly pluginUpdated: {
        readonly since: '0.1.0';
        readonly risk: 'low';
        readonly budgetMs: number;
        readonly attempts: 8;
        readonly doc: 'The installation moved to another version. The new version receives the event.';
        readonly reach: 'Receives an event when it is updated.';
        readonly data: z.ZodObject<{
            fromVersionId: z.ZodString;
            toVersionId: z.ZodString;
            fromSemVer: z.ZodString;
            toSemVer: z.ZodString;
        }, z.core.$strip>;
        readonly example: {
            readonly fromVersionId: 'v1';
            readonly toVersionId: 'v2';
            readonly fromSemVer: '1.0.0';
            readonly toSemVer: '1.1.0';
        };
    };
    readonly sessionStarted: {
        readonly since: '0.1.0';
        readonly risk: 'low';
        readonly budgetMs: number;
        readonly attempts: 8;
        readonly doc: 'A session started: an agent runtime opened it, or the first message arrived on a channel or for an agent.';
        readonly reach: 'Receives an event when a session of your agents starts.';
        readonly data: z.ZodObject<{
            sessionId: z.ZodString;
            agentId: z.ZodString;
            channelId: z.ZodNullable<z.ZodString>;
        }, z.core.$strip>;
        readonly example: {
            readonly sessionId: 's1';
            readonly agentId: 'a1';
            readonly channelId: null;
        };
    };
    readonly sessionCleared: {
        readonly since: '0.1.0';
        readonly risk: 'low';
        readonly budgetMs: number;
        readonly attempts: 8;
        readonly doc: 'A session was cleared: its messages were deleted, the session continues.';
        readonly reach: 'Receives an event when a session is cleared.';
        readonly data: z.ZodObject<{
            sessionId: z.ZodString;
            agentId: z.ZodString;
            messageCount: z.ZodNumber;
        }, z.core.$strip>;
        readonly example: {
            readonly sessionId: 's1';
            readonly agentId: 'a1';
            readonly messageCount: 4;
        };
    };
    readonly sessionDeleted: {
        readonly since: '0.1.0';
        readonly risk: 'low';
        readonly budgetMs: number;
        readonly attempts: 8;
        readonly doc: 'A session was deleted, directly or together with its agent, its channel or the installation that created them. None is sent while the account has used up its quota of deliveries.';
        readonly reach: 'Receives an event when a session is deleted.';
        readonly data: z.ZodObject<{
            sessionId: z.ZodString;
            agentId: z.ZodString;
        }, z.core.$strip>;
        readonly example: {
            readonly sessionId: 's1';
            readonly agentId: 'a1';
        };
    };
};
export type EventName = keyof typeof events;
/** The argument of an event handler. `id` is the same on every attempt, so that handlers can be idempotent. */
export declare const eventEnvelope: z.ZodObject<{
    id: z.ZodString;
    type: z.ZodString;
    occurredAt: z.ZodISODateTime;
    attempt: z.ZodNumber;
    installationId: z.ZodString;
    pluginId: z.ZodString;
    versionId: z.ZodString;
    semVer: z.ZodString;
    data: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
}, z.core.$strip>;
/** Keyed by kind of handler: `tools` stands for `tools.<name>.handler`, `providers` for `providers.<name>.chat`. */
export declare const surfaces: {
    readonly tools: {
        readonly since: '0.1.0';
        readonly budgetMs: number;
        readonly resultMax: {
            readonly bytes: number;
        };
        readonly doc: 'A tool that agents can call. Arguments are validated against `parameters` before the handler runs. A returned string, or any other JSON value, becomes one text part. A call that returns nothing fails: a tool that only acts returns a text such as `Done.`';
        readonly reach: 'Offers the tool “{name}” to your agents.';
        readonly risk: 'medium';
        readonly registration: z.ZodObject<{
            description: z.ZodString;
            parameters: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
        }, z.core.$strip>;
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            deadlineAt: z.ZodISODateTime;
            callId: z.ZodString;
            session: z.ZodObject<{
                id: z.ZodString;
                channelId: z.ZodNullable<z.ZodString>;
            }, z.core.$strip>;
            agent: z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
            }, z.core.$strip>;
            arguments: z.ZodCustom<z.JSONType, z.JSONType>;
        }, z.core.$strip>;
        readonly first: 'arguments';
        readonly result: z.ZodObject<{
            content: z.ZodArray<z.ZodDiscriminatedUnion<[z.ZodObject<{
                type: z.ZodLiteral<"text">;
                text: z.ZodString;
            }, z.core.$strip>, z.ZodObject<{
                type: z.ZodLiteral<"image">;
                data: z.ZodString;
                mimeType: z.ZodString;
            }, z.core.$strip>, z.ZodObject<{
                type: z.ZodLiteral<"json">;
                json: z.ZodCustom<z.JSONType, z.JSONType>;
            }, z.core.$strip>], "type">>;
            isError: z.ZodBoolean;
        }, z.core.$strip>;
    };
    readonly commands: {
        readonly since: '0.1.0';
        readonly budgetMs: number;
        readonly resultMax: {
            readonly textChars: 262144;
        };
        readonly doc: 'A command that users can run in a session. Returns the text to show or to send. A call that returns nothing fails.';
        readonly reach: 'Offers the command “/{name}”.';
        readonly risk: 'low';
        readonly registration: z.ZodObject<{
            description: z.ZodString;
        }, z.core.$strip>;
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            deadlineAt: z.ZodISODateTime;
            session: z.ZodObject<{
                id: z.ZodString;
                channelId: z.ZodNullable<z.ZodString>;
            }, z.core.$strip>;
            agent: z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
            }, z.core.$strip>;
            input: z.ZodString;
        }, z.core.$strip>;
        readonly first: 'input';
        readonly result: z.ZodObject<{
            text: z.ZodString;
        }, z.core.$strip>;
    };
    readonly providers: {
        readonly since: '0.1.0';
        readonly budgetMs: number;
        readonly resultMax: {
            readonly bytes: number;
            readonly textChars: 262144;
        };
        readonly doc: `A model provider: the models it offers, and \`chat\`, which completes one request. As an async generator, \`chat\` yields the pieces of its answer as they come and returns the whole answer. The pieces may have at most ${string} characters of text in all, and ${string} of arguments.`;
        readonly reach: 'Offers models as provider “{name}” and reads the conversations sent to them.';
        readonly risk: 'high';
        readonly registration: z.ZodObject<{
            models: z.ZodArray<z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
                contextWindow: z.ZodOptional<z.ZodNumber>;
            }, z.core.$strip>>;
        }, z.core.$strip>;
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            deadlineAt: z.ZodISODateTime;
            request: z.ZodObject<{
                model: z.ZodOptional<z.ZodString>;
                system: z.ZodOptional<z.ZodString>;
                maxTokens: z.ZodOptional<z.ZodNumber>;
                temperature: z.ZodOptional<z.ZodNumber>;
                schema: z.ZodOptional<z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>>;
                messages: z.ZodArray<z.ZodObject<{
                    role: z.ZodEnum<{
                        assistant: "assistant";
                        system: "system";
                        tool: "tool";
                        user: "user";
                    }>;
                    text: z.ZodString;
                    images: z.ZodOptional<z.ZodArray<z.ZodObject<{
                        data: z.ZodString;
                        mimeType: z.ZodString;
                    }, z.core.$strip>>>;
                    toolCalls: z.ZodOptional<z.ZodArray<z.ZodObject<{
                        id: z.ZodString;
                        name: z.ZodString;
                        arguments: z.ZodCustom<z.JSONType, z.JSONType>;
                    }, z.core.$strip>>>;
                    toolCallId: z.ZodOptional<z.ZodString>;
                }, z.core.$strip>>;
                tools: z.ZodOptional<z.ZodArray<z.ZodObject<{
                    name: z.ZodString;
                    description: z.ZodString;
                    parameters: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
                }, z.core.$strip>>>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly first: 'request';
        readonly result: z.ZodObject<{
            text: z.ZodString;
            json: z.ZodOptional<z.ZodCustom<z.JSONType, z.JSONType>>;
            model: z.ZodString;
            usage: z.ZodObject<{
                inputTokens: z.ZodNumber;
                outputTokens: z.ZodNumber;
            }, z.core.$strip>;
            toolCalls: z.ZodOptional<z.ZodArray<z.ZodObject<{
                id: z.ZodString;
                name: z.ZodString;
                arguments: z.ZodCustom<z.JSONType, z.JSONType>;
            }, z.core.$strip>>>;
        }, z.core.$strip>;
        readonly delta: z.ZodObject<{
            text: z.ZodOptional<z.ZodString>;
            toolCall: z.ZodOptional<z.ZodObject<{
                index: z.ZodNumber;
                id: z.ZodOptional<z.ZodString>;
                name: z.ZodOptional<z.ZodString>;
                argumentsText: z.ZodOptional<z.ZodString>;
            }, z.core.$strip>>;
        }, z.core.$strip>;
    };
    readonly 'channel.receive': {
        readonly since: '0.1.0';
        readonly reach: 'Receives webhooks and turns them into messages for your agents, responds to vendors that verify its webhook address, and sends your agents’ replies in its conversations to the connected vendor.';
        readonly risk: 'high';
        readonly budgetMs: number;
        readonly resultMax: {
            readonly bytes: number;
        };
        readonly doc: `Receives one webhook request of a connected channel, at least once and in order. Return nothing to add no message. At most 100 messages; in each, \`conversationKey\` has 1 to 500 characters, \`from\` at most 500, \`text\` at most ${string}, and \`attachments\` at most 50. None of them may contain U+0000 or lone surrogates: replace them with \`text.toWellFormed().replaceAll('\\0', '\\ufffd')\`.`;
        readonly registration: null;
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            deadlineAt: z.ZodISODateTime;
            request: z.ZodObject<{
                deliveryId: z.ZodString;
                attempt: z.ZodNumber;
                channelId: z.ZodString;
                routingId: z.ZodString;
                receivedAt: z.ZodISODateTime;
                method: z.ZodString;
                query: z.ZodString;
                headers: z.ZodRecord<z.ZodString, z.ZodString>;
                rawHeaders: z.ZodArray<z.ZodTuple<[z.ZodString, z.ZodString], null>>;
                bodyText: z.ZodString;
                bodyBytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly first: 'request';
        readonly result: z.ZodOptional<z.ZodObject<{
            messages: z.ZodArray<z.ZodObject<{
                conversationKey: z.ZodString;
                from: z.ZodString;
                text: z.ZodString;
                attachments: z.ZodOptional<z.ZodArray<z.ZodObject<{
                    name: z.ZodString;
                    mediaType: z.ZodString;
                    mediaId: z.ZodOptional<z.ZodString>;
                    url: z.ZodOptional<z.ZodURL>;
                }, z.core.$strip>>>;
            }, z.core.$strip>>;
        }, z.core.$strip>>;
    };
    readonly 'channel.send': {
        readonly since: '0.1.0';
        readonly reach: 'Receives webhooks and turns them into messages for your agents, responds to vendors that verify its webhook address, and sends your agents’ replies in its conversations to the connected vendor.';
        readonly risk: 'high';
        readonly budgetMs: number;
        readonly resultMax: {};
        readonly doc: 'Sends an agent’s reply to the vendor, at least once. Every attempt has the same `deliveryId`, with which a vendor can recognise a repetition; `attempt` counts from 1.';
        readonly registration: null;
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            deadlineAt: z.ZodISODateTime;
            message: z.ZodObject<{
                conversationKey: z.ZodString;
                text: z.ZodString;
                attachments: z.ZodArray<z.ZodObject<{
                    name: z.ZodString;
                    mediaType: z.ZodString;
                    mediaId: z.ZodOptional<z.ZodString>;
                    url: z.ZodOptional<z.ZodURL>;
                }, z.core.$strip>>;
                deliveryId: z.ZodString;
                attempt: z.ZodNumber;
                channelId: z.ZodString;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly first: 'message';
        readonly result: z.ZodUndefined;
    };
    readonly 'channel.handshake': {
        readonly since: '0.1.0';
        readonly reach: 'Receives webhooks and turns them into messages for your agents, responds to vendors that verify its webhook address, and sends your agents’ replies in its conversations to the connected vendor.';
        readonly risk: 'high';
        readonly budgetMs: 2500;
        readonly resultMax: {
            readonly bodyChars: 65536;
        };
        readonly doc: 'Responds immediately to a vendor that verifies the webhook address, by GET, OPTIONS or a POST that `channel.handshakeOn` selects. Return nothing to queue the request for `channel.receive`. Of `headers`, only `content-type`, `x-hook-secret`, `webhook-allowed-origin` and `webhook-allowed-rate` are sent.';
        readonly registration: null;
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            deadlineAt: z.ZodISODateTime;
            request: z.ZodObject<{
                deliveryId: z.ZodString;
                attempt: z.ZodNumber;
                channelId: z.ZodString;
                routingId: z.ZodString;
                receivedAt: z.ZodISODateTime;
                method: z.ZodString;
                query: z.ZodString;
                headers: z.ZodRecord<z.ZodString, z.ZodString>;
                rawHeaders: z.ZodArray<z.ZodTuple<[z.ZodString, z.ZodString], null>>;
                bodyText: z.ZodString;
                bodyBytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
            }, z.core.$strip>;
        }, z.core.$strip>;
        readonly first: 'request';
        readonly result: z.ZodOptional<z.ZodObject<{
            status: z.ZodNumber;
            headers: z.ZodOptional<z.ZodRecord<z.ZodString, z.ZodString>>;
            body: z.ZodOptional<z.ZodString>;
        }, z.core.$strip>>;
    };
};
export type SurfaceName = keyof typeof surfaces;
/** `channel.handshakeOn`: selects the POST requests that are a handshake. */
export declare const handshakeOn: z.ZodObject<{
    jsonType: z.ZodOptional<z.ZodString>;
    header: z.ZodOptional<z.ZodString>;
}, z.core.$strict>;
/** The registrations of a bundle, which introspection records at publish. At run time a child may register nothing else. */
export declare const registrations: z.ZodObject<{
    hooks: z.ZodArray<z.ZodString>;
    streams: z.ZodOptional<z.ZodArray<z.ZodString>>;
    events: z.ZodArray<z.ZodString>;
    tools: z.ZodRecord<z.ZodString, z.ZodObject<{
        description: z.ZodString;
        parameters: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
    }, z.core.$strip>>;
    commands: z.ZodRecord<z.ZodString, z.ZodObject<{
        description: z.ZodString;
    }, z.core.$strip>>;
    providers: z.ZodRecord<z.ZodString, z.ZodObject<{
        models: z.ZodArray<z.ZodObject<{
            id: z.ZodString;
            name: z.ZodString;
            contextWindow: z.ZodOptional<z.ZodNumber>;
        }, z.core.$strip>>;
    }, z.core.$strip>>;
    channel: z.ZodObject<{
        receive: z.ZodBoolean;
        send: z.ZodBoolean;
        handshake: z.ZodBoolean;
        handshakeOn: z.ZodNullable<z.ZodObject<{
            jsonType: z.ZodOptional<z.ZodString>;
            header: z.ZodOptional<z.ZodString>;
        }, z.core.$strict>>;
    }, z.core.$strip>;
}, z.core.$strip>;
export type Registrations = z.infer<typeof registrations>;
/** A fault in the `parameters` of a tool, found when the bundle was introspected. `at` is a JSON pointer. */
export declare const schemaFault: z.ZodObject<{
    tool: z.ZodString;
    at: z.ZodString;
    message: z.ZodString;
}, z.core.$strip>;
export type SchemaFault = z.infer<typeof schemaFault>;
/** The faults in the arguments of a call. */
declare const argumentFault: z.ZodObject<{
    field: z.ZodString;
    message: z.ZodString;
}, z.core.$strip>;
export type ArgumentFault = z.infer<typeof argumentFault>;
/** Frontmatter declares these as `host.<member>` or `host.<member>:read`. */
export declare const capabilities: {
    readonly session: {
        readonly reach: 'Reads session transcripts and adds messages to them.';
        readonly risk: 'high';
        readonly read: {
            readonly reach: 'Reads session transcripts.';
            readonly risk: 'medium';
        };
    };
    readonly agents: {
        readonly reach: 'Lists, creates, changes, removes and messages your agents.';
        readonly risk: 'high';
        readonly read: {
            readonly reach: 'Lists your agents.';
            readonly risk: 'low';
        };
    };
    readonly models: {
        readonly reach: 'Lists the models your agents can use.';
        readonly risk: 'low';
        readonly read: {
            readonly reach: 'Lists the models your agents can use.';
            readonly risk: 'low';
        };
    };
    readonly workspace: {
        readonly reach: 'Reads, writes and removes files in your workspace.';
        readonly risk: 'high';
        readonly read: {
            readonly reach: 'Reads files in your workspace.';
            readonly risk: 'medium';
        };
    };
    readonly media: {
        readonly reach: 'Reads, writes and removes your media files.';
        readonly risk: 'medium';
        readonly read: {
            readonly reach: 'Reads your media files.';
            readonly risk: 'medium';
        };
    };
    readonly llm: {
        readonly reach: 'Calls your language models, at your cost.';
        readonly risk: 'medium';
        readonly read: {
            readonly reach: 'Calls none of your language models.';
            readonly risk: 'low';
        };
    };
    readonly ssh: {
        readonly reach: 'Runs commands on your SSH hosts.';
        readonly risk: 'high';
        readonly read: {
            readonly reach: 'Lists your SSH hosts.';
            readonly risk: 'low';
        };
    };
    readonly storage: {
        readonly reach: 'Stores up to 1 MiB of its own data.';
        readonly risk: 'low';
        readonly read: {
            readonly reach: 'Reads its own stored data.';
            readonly risk: 'low';
        };
    };
};
/** `host.http:<host or *.host>`, the only capability with a parameter. */
export declare const httpReach: Reach;
/** The use of a secret: the plugin reads it, or the host uses it for the plugin. */
export declare const secretReach: {
    readonly read: {
        readonly reach: 'Reads the value of the secret “{name}”.';
        readonly risk: 'medium';
    };
    readonly http: {
        readonly reach: 'Has the secret “{name}” sent to {host}, without seeing its value.';
        readonly risk: 'low';
    };
    readonly webhooks: {
        readonly reach: 'Has webhook signatures checked with the secret “{name}”, without seeing its value.';
        readonly risk: 'low';
    };
};
export declare const hostCalls: {
    readonly 'secrets.get': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: null;
        readonly audit: 'none';
        readonly doc: 'Returns the value of a secret that the frontmatter declares, or null if the user has not set it. For a secret with a `use`, or a value that the user gave for a use, it returns a handle: a string that `host.http.fetch` replaces in headers, and `webhooks.verify…` accepts as the secret.';
        readonly params: {
            readonly name: z.ZodString;
        };
        readonly result: z.ZodNullable<z.ZodString>;
    };
    readonly 'secrets.verify': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: null;
        readonly doc: 'Verifies a signature with a secret of which the plugin has a handle. `webhooks.verify…` call it.';
        readonly params: {
            readonly scheme: z.ZodEnum<{
                GitHub: "GitHub";
                Slack: "Slack";
                Standard: "Standard";
                Stripe: "Stripe";
            }>;
            readonly headers: z.ZodRecord<z.ZodString, z.ZodString>;
            readonly bodyBytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
            readonly handle: z.ZodString;
            readonly options: z.ZodOptional<z.ZodObject<{
                toleranceSeconds: z.ZodOptional<z.ZodNumber>;
            }, z.core.$strip>>;
            readonly receivedAt: z.ZodOptional<z.ZodISODateTime>;
        };
        readonly result: z.ZodBoolean;
    };
    readonly 'assets.read': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: null;
        readonly audit: 'none';
        readonly maxBytes: number;
        readonly doc: 'Returns the bytes of a file below `assets/` of the package: `cities.bin` is the file `assets/cities.bin`. At most 2 MiB.';
        readonly params: {
            readonly path: z.ZodString;
        };
        readonly result: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
    };
    readonly 'assets.readText': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: null;
        readonly audit: 'none';
        readonly maxBytes: number;
        readonly doc: 'Returns the text of a UTF-8 file below `assets/` of the package. At most 2 MiB.';
        readonly params: {
            readonly path: z.ZodString;
        };
        readonly result: z.ZodString;
    };
    readonly 'session.get': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'session';
        readonly doc: "Returns the session that the handler runs for. Works only in a hook, tool or command that runs for a session, before its handler answers.";
        readonly params: {};
        readonly result: z.ZodObject<{
            id: z.ZodString;
            agentId: z.ZodString;
            channelId: z.ZodNullable<z.ZodString>;
            createdAt: z.ZodISODateTime;
        }, z.core.$strip>;
    };
    readonly 'session.messages': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'session';
        readonly doc: "Returns the newest messages of the session, oldest first. Default: 100. Fewer than the limit if they have 4 MiB of JSON together, or less with much data. Works only in a hook, tool or command that runs for a session, before its handler answers.";
        readonly maxBytes: number;
        readonly params: {
            readonly limit: z.ZodOptional<z.ZodNumber>;
        };
        readonly result: z.ZodArray<z.ZodObject<{
            id: z.ZodString;
            role: z.ZodEnum<{
                assistant: "assistant";
                notice: "notice";
                system: "system";
                tool: "tool";
                user: "user";
            }>;
            text: z.ZodString;
            at: z.ZodISODateTime;
            data: z.ZodOptional<z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>>;
        }, z.core.$strip>>;
    };
    readonly 'session.post': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly budget: 'counted';
        readonly secrets: 'masked';
        readonly capability: 'session';
        readonly timeoutMs: number;
        readonly doc: "Adds a message to the session as the plugin. `middleware.outboundMessage` of the other plugins runs first. Works only in a hook, tool or command that runs for a session, before its handler answers.";
        readonly params: {
            readonly text: z.ZodString;
        };
        readonly result: z.ZodObject<{
            id: z.ZodString;
        }, z.core.$strip>;
    };
    readonly 'session.notice': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly budget: 'extended';
        readonly secrets: 'masked';
        readonly capability: 'session';
        readonly doc: "Adds a notice to the transcript. Models do not see it. Works only in a hook, tool or command that runs for a session, before its handler answers.";
        readonly params: {
            readonly text: z.ZodString;
        };
        readonly result: z.ZodObject<{
            id: z.ZodString;
        }, z.core.$strip>;
    };
    readonly 'agents.list': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'agents';
        readonly doc: 'Returns the agents of the account.';
        readonly params: {};
        readonly result: z.ZodArray<z.ZodObject<{
            id: z.ZodString;
            name: z.ZodString;
            instructions: z.ZodString;
            model: z.ZodNullable<z.ZodString>;
        }, z.core.$strip>>;
    };
    readonly 'agents.create': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly budget: 'extended';
        readonly secrets: 'masked';
        readonly capability: 'agents';
        readonly doc: 'Creates an agent. It is removed together with this installation.';
        readonly params: {
            readonly agent: z.ZodObject<{
                name: z.ZodString;
                instructions: z.ZodOptional<z.ZodString>;
                model: z.ZodOptional<z.ZodNullable<z.ZodString>>;
            }, z.core.$strip>;
        };
        readonly result: z.ZodObject<{
            id: z.ZodString;
            name: z.ZodString;
            instructions: z.ZodString;
            model: z.ZodNullable<z.ZodString>;
        }, z.core.$strip>;
    };
    readonly 'agents.update': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly budget: 'extended';
        readonly secrets: 'masked';
        readonly capability: 'agents';
        readonly doc: 'Changes an agent that this installation created.';
        readonly params: {
            readonly agentId: z.ZodString;
            readonly changes: z.ZodObject<{
                name: z.ZodOptional<z.ZodString>;
                instructions: z.ZodOptional<z.ZodOptional<z.ZodString>>;
                model: z.ZodOptional<z.ZodOptional<z.ZodNullable<z.ZodString>>>;
            }, z.core.$strip>;
        };
        readonly result: z.ZodObject<{
            id: z.ZodString;
            name: z.ZodString;
            instructions: z.ZodString;
            model: z.ZodNullable<z.ZodString>;
        }, z.core.$strip>;
    };
    readonly 'agents.remove': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly capability: 'agents';
        readonly doc: 'Removes an agent that this installation created.';
        readonly params: {
            readonly agentId: z.ZodString;
        };
        readonly result: z.ZodUndefined;
    };
    readonly 'agents.send': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly budget: 'counted';
        readonly secrets: 'masked';
        readonly capability: 'agents';
        readonly timeoutMs: number;
        readonly doc: 'Sends a message to an agent. `middleware.agentMessage` and `middleware.inboundMessage` run first.';
        readonly params: {
            readonly agentId: z.ZodString;
            readonly text: z.ZodString;
        };
        readonly result: z.ZodObject<{
            id: z.ZodString;
        }, z.core.$strip>;
    };
    readonly 'models.list': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'models';
        readonly doc: 'Returns the models that `host.llm.complete` can use.';
        readonly params: {};
        readonly result: z.ZodArray<z.ZodObject<{
            id: z.ZodString;
            name: z.ZodString;
            contextWindow: z.ZodOptional<z.ZodNumber>;
        }, z.core.$strip>>;
    };
    readonly 'llm.complete': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly capability: 'llm';
        readonly budget: 'paused';
        readonly timeoutMs: number;
        readonly doc: 'Calls a language model and returns the complete response.';
        readonly params: {
            readonly request: z.ZodObject<{
                model: z.ZodOptional<z.ZodString>;
                system: z.ZodOptional<z.ZodString>;
                messages: z.ZodArray<z.ZodObject<{
                    role: z.ZodEnum<{
                        assistant: "assistant";
                        system: "system";
                        user: "user";
                    }>;
                    text: z.ZodString;
                }, z.core.$strip>>;
                maxTokens: z.ZodOptional<z.ZodNumber>;
                temperature: z.ZodOptional<z.ZodNumber>;
                schema: z.ZodOptional<z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>>;
            }, z.core.$strip>;
        };
        readonly result: z.ZodObject<{
            text: z.ZodString;
            json: z.ZodOptional<z.ZodCustom<z.JSONType, z.JSONType>>;
            model: z.ZodString;
            usage: z.ZodObject<{
                inputTokens: z.ZodNumber;
                outputTokens: z.ZodNumber;
            }, z.core.$strip>;
        }, z.core.$strip>;
    };
    readonly 'workspace.list': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'workspace';
        readonly doc: `Returns the files below a directory of the workspace, also in folders of it. Throws if there are more than ${string}. Of a missing directory, the error says \`no such file or directory\`.`;
        readonly params: {
            readonly path: z.ZodOptional<z.ZodString>;
        };
        readonly result: z.ZodArray<z.ZodObject<{
            path: z.ZodString;
            sizeBytes: z.ZodNumber;
            updatedAt: z.ZodISODateTime;
        }, z.core.$strip>>;
    };
    readonly 'workspace.read': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'workspace';
        readonly doc: 'Returns the bytes of a file.';
        readonly params: {
            readonly path: z.ZodString;
        };
        readonly result: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
    };
    readonly 'workspace.readText': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'workspace';
        readonly doc: 'Returns the text of a UTF-8 file. Of a missing file, the error says `no such file or directory`.';
        readonly params: {
            readonly path: z.ZodString;
        };
        readonly result: z.ZodString;
    };
    readonly 'workspace.write': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly capability: 'workspace';
        readonly doc: 'Writes a file of at most 1 MiB and creates its directories.';
        readonly params: {
            readonly path: z.ZodString;
            readonly content: z.ZodUnion<readonly [z.ZodString, z.ZodInstanceOf<Uint8Array<ArrayBuffer>>]>;
        };
        readonly result: z.ZodUndefined;
    };
    readonly 'workspace.remove': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly capability: 'workspace';
        readonly doc: 'Removes a file.';
        readonly params: {
            readonly path: z.ZodString;
        };
        readonly result: z.ZodUndefined;
    };
    readonly 'media.put': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly budget: 'extended';
        readonly secrets: 'refused';
        readonly capability: 'media';
        readonly doc: 'Stores a media file of at most 2 MiB and returns its id. The same bytes have the same id.';
        readonly params: {
            readonly content: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
            readonly name: z.ZodOptional<z.ZodString>;
        };
        readonly result: z.ZodObject<{
            id: z.ZodString;
            mediaType: z.ZodString;
            sizeBytes: z.ZodNumber;
        }, z.core.$strip>;
    };
    readonly 'media.get': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'media';
        readonly maxBytes: number;
        readonly doc: 'Returns the bytes and the media type of a file.';
        readonly params: {
            readonly mediaId: z.ZodString;
        };
        readonly result: z.ZodObject<{
            content: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
            mediaType: z.ZodString;
        }, z.core.$strip>;
    };
    readonly 'media.remove': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly capability: 'media';
        readonly doc: 'Removes a media file.';
        readonly params: {
            readonly mediaId: z.ZodString;
        };
        readonly result: z.ZodUndefined;
    };
    readonly 'ssh.hosts': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'ssh';
        readonly doc: 'Returns the SSH hosts that the user added, and those that the operator configured for the account.';
        readonly params: {};
        readonly result: z.ZodArray<z.ZodObject<{
            id: z.ZodString;
            name: z.ZodString;
        }, z.core.$strip>>;
    };
    readonly 'ssh.run': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly capability: 'ssh';
        readonly budget: 'paused';
        readonly timeoutMs: number;
        readonly doc: 'Runs a command over SSH. The three SSH hooks run for it.';
        readonly params: {
            readonly hostId: z.ZodString;
            readonly command: z.ZodString;
            readonly options: z.ZodOptional<z.ZodObject<{
                cwd: z.ZodOptional<z.ZodString>;
                env: z.ZodOptional<z.ZodRecord<z.ZodString, z.ZodString>>;
                timeoutMs: z.ZodOptional<z.ZodNumber>;
                input: z.ZodOptional<z.ZodString>;
            }, z.core.$strip>>;
        };
        readonly result: z.ZodObject<{
            exitCode: z.ZodNullable<z.ZodNumber>;
            stdout: z.ZodString;
            stderr: z.ZodString;
        }, z.core.$strip>;
    };
    readonly 'storage.get': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'storage';
        readonly doc: 'Returns a stored value, or null.';
        readonly params: {
            readonly key: z.ZodString;
        };
        readonly result: z.ZodNullable<z.ZodCustom<z.JSONType, z.JSONType>>;
    };
    readonly 'storage.set': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly budget: 'extended';
        readonly secrets: 'refused';
        readonly capability: 'storage';
        readonly doc: 'Stores a JSON value of at most 1 MiB.';
        readonly params: {
            readonly key: z.ZodString;
            readonly value: z.ZodCustom<z.JSONType, z.JSONType>;
        };
        readonly result: z.ZodUndefined;
    };
    readonly 'storage.delete': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly capability: 'storage';
        readonly doc: 'Deletes a value.';
        readonly params: {
            readonly key: z.ZodString;
        };
        readonly result: z.ZodUndefined;
    };
    readonly 'storage.list': {
        readonly since: '0.1.0';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'extended';
        readonly readable: true;
        readonly capability: 'storage';
        readonly doc: `Returns the stored keys that start with a prefix. Throws if there are more than ${string}.`;
        readonly params: {
            readonly prefix: z.ZodOptional<z.ZodString>;
        };
        readonly result: z.ZodArray<z.ZodString>;
    };
    readonly 'http.fetch': {
        readonly since: '0.1.0';
        readonly readable: false;
        readonly audit: 'digest';
        readonly secrets: 'sent';
        readonly budget: 'counted';
        readonly capability: 'http';
        readonly timeoutMs: number;
        readonly maxBytes: number;
        readonly doc: 'Sends an HTTP request to a declared host. Without `timeoutMs`, which is at most 120,000, the response must be complete within 30 s; within 120 s if `chat` of a provider makes the call.';
        readonly params: {
            readonly url: z.ZodURL;
            readonly init: z.ZodOptional<z.ZodObject<{
                method: z.ZodOptional<z.ZodEnum<{
                    DELETE: "DELETE";
                    GET: "GET";
                    HEAD: "HEAD";
                    PATCH: "PATCH";
                    POST: "POST";
                    PUT: "PUT";
                }>>;
                headers: z.ZodOptional<z.ZodRecord<z.ZodString, z.ZodString>>;
                body: z.ZodOptional<z.ZodUnion<readonly [z.ZodString, z.ZodInstanceOf<Uint8Array<ArrayBuffer>>]>>;
                timeoutMs: z.ZodOptional<z.ZodNumber>;
                redirect: z.ZodOptional<z.ZodEnum<{
                    error: "error";
                    follow: "follow";
                }>>;
            }, z.core.$strip>>;
        };
        readonly result: z.ZodObject<{
            status: z.ZodNumber;
            headers: z.ZodRecord<z.ZodString, z.ZodString>;
            bodyText: z.ZodString;
            bodyBytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
        }, z.core.$strip>;
    };
};
export type HostCallName = keyof typeof hostCalls;
/** How long host calls may pause the budget of one call of a handler in all: as long as the longest of them takes. Milliseconds. */
export declare const PAUSED_MAX_MS: number;
export declare const logLevels: readonly ['debug', 'info', 'warn', 'error'];
export type LogLevel = (typeof logLevels)[number];
/** The handler to run: the row's key, and the registered name where the row has many. */
export declare const target: z.ZodObject<{
    kind: z.ZodEnum<{
        channel: "channel";
        commands: "commands";
        event: "event";
        hook: "hook";
        providers: "providers";
        tools: "tools";
    }>;
    name: z.ZodString;
}, z.core.$strip>;
export type Target = z.infer<typeof target>;
/**
 * JSON-RPC methods between supervisor and child. A request gets a response, a notification does not. The supervisor cancels
 * an `invoke` with `$/cancelRequest` and a `reason`, `deadline` or `caller`; the child still responds to it.
 */
export declare const control: {
    /** Sent once, when the realm is locked down and the child reads frames. */
    readonly ready: {
        readonly by: 'child';
        readonly form: 'notification';
        readonly params: z.ZodObject<{
            node: z.ZodString;
        }, z.core.$strip>;
    };
    /** Evaluates the bundle. */
    readonly load: {
        readonly by: 'supervisor';
        readonly form: 'request';
        readonly params: z.ZodObject<{
            bundle: z.ZodString;
            sourceName: z.ZodString;
            members: z.ZodArray<z.ZodString>;
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            secretNames: z.ZodArray<z.ZodString>;
            expected: z.ZodNullable<z.ZodObject<{
                hooks: z.ZodArray<z.ZodString>;
                streams: z.ZodOptional<z.ZodArray<z.ZodString>>;
                events: z.ZodArray<z.ZodString>;
                tools: z.ZodRecord<z.ZodString, z.ZodObject<{
                    description: z.ZodString;
                    parameters: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
                }, z.core.$strip>>;
                commands: z.ZodRecord<z.ZodString, z.ZodObject<{
                    description: z.ZodString;
                }, z.core.$strip>>;
                providers: z.ZodRecord<z.ZodString, z.ZodObject<{
                    models: z.ZodArray<z.ZodObject<{
                        id: z.ZodString;
                        name: z.ZodString;
                        contextWindow: z.ZodOptional<z.ZodNumber>;
                    }, z.core.$strip>>;
                }, z.core.$strip>>;
                channel: z.ZodObject<{
                    receive: z.ZodBoolean;
                    send: z.ZodBoolean;
                    handshake: z.ZodBoolean;
                    handshakeOn: z.ZodNullable<z.ZodObject<{
                        jsonType: z.ZodOptional<z.ZodString>;
                        header: z.ZodOptional<z.ZodString>;
                    }, z.core.$strict>>;
                }, z.core.$strip>;
            }, z.core.$strip>>;
        }, z.core.$strip>;
        readonly result: z.ZodUnion<readonly [z.ZodObject<{
            outcome: z.ZodLiteral<"loaded">;
            registrations: z.ZodObject<{
                hooks: z.ZodArray<z.ZodString>;
                streams: z.ZodOptional<z.ZodArray<z.ZodString>>;
                events: z.ZodArray<z.ZodString>;
                tools: z.ZodRecord<z.ZodString, z.ZodObject<{
                    description: z.ZodString;
                    parameters: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
                }, z.core.$strip>>;
                commands: z.ZodRecord<z.ZodString, z.ZodObject<{
                    description: z.ZodString;
                }, z.core.$strip>>;
                providers: z.ZodRecord<z.ZodString, z.ZodObject<{
                    models: z.ZodArray<z.ZodObject<{
                        id: z.ZodString;
                        name: z.ZodString;
                        contextWindow: z.ZodOptional<z.ZodNumber>;
                    }, z.core.$strip>>;
                }, z.core.$strip>>;
                channel: z.ZodObject<{
                    receive: z.ZodBoolean;
                    send: z.ZodBoolean;
                    handshake: z.ZodBoolean;
                    handshakeOn: z.ZodNullable<z.ZodObject<{
                        jsonType: z.ZodOptional<z.ZodString>;
                        header: z.ZodOptional<z.ZodString>;
                    }, z.core.$strict>>;
                }, z.core.$strip>;
            }, z.core.$strip>;
            places: z.ZodRecord<z.ZodString, z.ZodString>;
            schemaFaults: z.ZodArray<z.ZodObject<{
                tool: z.ZodString;
                at: z.ZodString;
                message: z.ZodString;
            }, z.core.$strip>>;
        }, z.core.$strip>, z.ZodObject<{
            outcome: z.ZodLiteral<"failed">;
            message: z.ZodString;
            stack: z.ZodString;
        }, z.core.$strip>]>;
    };
    readonly invoke: {
        readonly by: 'supervisor';
        readonly form: 'request';
        readonly params: z.ZodObject<{
            target: z.ZodObject<{
                kind: z.ZodEnum<{
                    channel: "channel";
                    commands: "commands";
                    event: "event";
                    hook: "hook";
                    providers: "providers";
                    tools: "tools";
                }>;
                name: z.ZodString;
            }, z.core.$strip>;
            invocationId: z.ZodString;
            context: z.ZodRecord<z.ZodString, z.ZodUnknown>;
            deadlineMs: z.ZodNumber;
            wantsDeltas: z.ZodOptional<z.ZodBoolean>;
        }, z.core.$strip>;
        readonly result: z.ZodUnion<readonly [z.ZodObject<{
            outcome: z.ZodLiteral<"answered">;
            answer: z.ZodUnknown;
        }, z.core.$strip>, z.ZodObject<{
            outcome: z.ZodLiteral<"cancelled">;
            reason: z.ZodString;
        }, z.core.$strip>, z.ZodObject<{
            outcome: z.ZodLiteral<"invalid_arguments">;
            errors: z.ZodArray<z.ZodObject<{
                field: z.ZodString;
                message: z.ZodString;
            }, z.core.$strip>>;
        }, z.core.$strip>, z.ZodObject<{
            outcome: z.ZodLiteral<"failed">;
            message: z.ZodString;
            stack: z.ZodString;
        }, z.core.$strip>]>;
    };
    /** The handler of an invocation begins while those of others have not answered: it waits for none of them. */
    readonly started: {
        readonly by: 'child';
        readonly form: 'notification';
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
        }, z.core.$strip>;
    };
    /** A delta of an answer, before the response to its `invoke`. The token is the id of the invocation. */
    readonly '$/progress': {
        readonly by: 'child';
        readonly form: 'notification';
        readonly params: z.ZodObject<{
            token: z.ZodString;
            value: z.ZodUnknown;
        }, z.core.$strip>;
    };
    /** One delta of an invocation was passed on: the child may send another. */
    readonly deltaRead: {
        readonly by: 'supervisor';
        readonly form: 'notification';
        readonly params: z.ZodObject<{
            invocationId: z.ZodString;
        }, z.core.$strip>;
    };
    /** Answered after a full turn of the event loop: the code that loading left behind has run, and does not block. */
    readonly health: {
        readonly by: 'supervisor';
        readonly form: 'request';
        readonly params: z.ZodObject<{}, z.core.$strip>;
        readonly result: z.ZodObject<{
            healthy: z.ZodLiteral<true>;
        }, z.core.$strip>;
    };
    readonly configure: {
        readonly by: 'supervisor';
        readonly form: 'notification';
        readonly params: z.ZodObject<{
            settings: z.ZodRecord<z.ZodString, z.ZodString>;
            members: z.ZodArray<z.ZodString>;
        }, z.core.$strip>;
    };
    /**
     * The invocation is null for a call outside a running handler. `http.openBody`, `http.readBody` and `http.closeBody` are
     * `fetch`'s, and no members of `host`.
     */
    readonly hostCall: {
        readonly by: 'child';
        readonly form: 'request';
        readonly params: z.ZodObject<{
            member: z.ZodString;
            invocationId: z.ZodNullable<z.ZodString>;
            args: z.ZodArray<z.ZodUnknown>;
        }, z.core.$strip>;
        readonly result: z.ZodObject<{
            value: z.ZodUnknown;
        }, z.core.$strip>;
    };
    readonly log: {
        readonly by: 'child';
        readonly form: 'notification';
        readonly params: z.ZodObject<{
            level: z.ZodEnum<{
                debug: "debug";
                error: "error";
                info: "info";
                warn: "warn";
            }>;
            message: z.ZodString;
            data: z.ZodOptional<z.ZodUnknown>;
            invocationId: z.ZodNullable<z.ZodString>;
            truncated: z.ZodBoolean;
        }, z.core.$strip>;
    };
};
export {};
